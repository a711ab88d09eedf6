// Numbers with units, as cluster files and command lines have them: "1.2 us", "64 KiB", "100 Gbit/s".
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace outrigger::sim::model {

// Each gives an error that names the text and the units that are allowed. A unit is always needed, so that no number is
// read as something that it was not meant to be; nothing is negative.
[[nodiscard]] Result<std::uint64_t> parse_time_ns(std::string_view text);  // ns, us, ms, s; rounded to whole ns
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);    // B, kB, KiB, MB, MiB, GB, GiB
[[nodiscard]] Result<double> parse_bytes_per_s(std::string_view text);  // B/s to TB/s, KiB/s to GiB/s, bit/s to Tbit/s

}  // namespace outrigger::sim::model
