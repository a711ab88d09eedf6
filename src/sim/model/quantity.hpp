// Numbers with units, for cluster files and command lines: "1.2 us", "64 KiB", "100 Gbit/s".
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace outrigger::sim::model {

// Errors name the text and the allowed units. A unit is required, to avoid misreading. Numbers are not negative.
[[nodiscard]] Result<std::uint64_t> parse_time_ns(std::string_view text);  // ns, us, ms, s; rounded to whole ns
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);    // B, kB, KiB, MB, MiB, GB, GiB
[[nodiscard]] Result<double> parse_bytes_per_s(std::string_view text);  // B/s to TB/s, KiB/s to GiB/s, bit/s to Tbit/s

}  // namespace outrigger::sim::model
