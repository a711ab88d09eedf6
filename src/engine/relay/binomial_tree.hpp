// A binomial tree of `count` places, numbered by turns from the root's place: the parent of a number has its lowest bit
// cleared.
//
//     0 ──▶ 1
//     │───▶ 2 ──▶ 3
//     └───▶ 4 ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace outrigger::engine {

// The place `levels` above the own one. Nothing: that is the root's.
[[nodiscard]] constexpr std::optional<std::size_t> binomial_ancestor(std::size_t own, std::size_t root,
                                                                     std::size_t count, std::uint32_t levels) {
  std::size_t number = (own + count - root) % count;
  for (std::uint32_t up = 0; up < levels && number != 0; ++up) number &= number - 1;
  if (number == 0) return std::nullopt;
  return (number + root) % count;
}

}  // namespace outrigger::engine
