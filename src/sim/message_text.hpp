// What a message between service processes says, for people who read a trace.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace outrigger::sim {

// Nothing: it does not decode.
[[nodiscard]] std::optional<std::string> text_of_message(std::span<const std::byte> message);

}  // namespace outrigger::sim
