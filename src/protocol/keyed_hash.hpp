// SipHash-2-4 with 128 bits (Aumasson and Bernstein 2012): a keyed hash by which two ends prove to each other that they
// know a secret, without sending it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "protocol/control.hpp"

namespace outrigger {

using Tag = std::array<std::uint8_t, 16>;

[[nodiscard]] Tag keyed_hash(const Secret& key, std::span<const std::byte> bytes);
// Takes as long for tags that differ as for equal ones.
[[nodiscard]] bool same_tag(const Tag& left, const Tag& right);

// The secret of a job from its text: at least 32 hexadecimal digits, white space around them left out.
[[nodiscard]] Result<Secret> secret_of_text(std::string_view text);

}  // namespace outrigger
