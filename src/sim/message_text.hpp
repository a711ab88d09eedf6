// Text form of a message between service processes, for people who read a trace.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace outrigger::sim {

// nullopt: it cannot be decoded.
[[nodiscard]] std::optional<std::string> text_of_message(std::span<const std::byte> message);

}  // namespace outrigger::sim
