#include "sim/model/quantity.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>

namespace outrigger::sim::model {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kTimes{Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};
constexpr std::array kSizes{Unit{"B", 1},        Unit{"kB", 1e3}, Unit{"KiB", 0x1p10}, Unit{"MB", 1e6},
                            Unit{"MiB", 0x1p20}, Unit{"GB", 1e9}, Unit{"GiB", 0x1p30}};
constexpr std::array kRates{Unit{"B/s", 1},          Unit{"kB/s", 1e3},       Unit{"MB/s", 1e6},
                            Unit{"GB/s", 1e9},       Unit{"TB/s", 1e12},      Unit{"KiB/s", 0x1p10},
                            Unit{"MiB/s", 0x1p20},   Unit{"GiB/s", 0x1p30},   Unit{"bit/s", 1.0 / 8},
                            Unit{"kbit/s", 1e3 / 8}, Unit{"Mbit/s", 1e6 / 8}, Unit{"Gbit/s", 1e9 / 8},
                            Unit{"Tbit/s", 1e12 / 8}};

// Values must fit into 64 bits even after a million additions.
constexpr double kMost = 1e15;

std::string allowed(std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) text += fmt::format("{}{}", text.empty() ? "" : ", ", unit.name);
  return text;
}

Result<double> parse(std::string_view text, const char* what, std::span<const Unit> units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !std::isfinite(number) || number < 0) {
    return Error{fmt::format("'{}' is no {}; write a number and one of {}", text, what, allowed(units))};
  }
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    if (number * known.factor > kMost) return Error{fmt::format("'{}' is too large", text)};
    return number * known.factor;
  }
  return Error{fmt::format(
      "'{}' has {}; write one of {}", text,
      unit.empty() ? "no unit" : fmt::format("the unit '{}', which is not one of a {}", unit, what), allowed(units))};
}

Result<std::uint64_t> whole(const Result<double>& number) {
  if (!number) return Error{number.error()};
  return static_cast<std::uint64_t>(std::llround(number.value()));
}

}  // namespace

Result<std::uint64_t> parse_time_ns(std::string_view text) {
  return whole(parse(text, "time", kTimes));
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  return whole(parse(text, "size", kSizes));
}

Result<double> parse_bytes_per_s(std::string_view text) {
  return parse(text, "rate", kRates);
}

}  // namespace outrigger::sim::model
