// The kernel of half_floats.hpp as a template, compiled once for each instruction set, as in elementwise.hpp. `Set` has
// the conversions: to_float(type, from, floats, elements) and to_half(type, floats, to, elements).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reduce/half_floats.hpp"

namespace outrigger::reduce {

// Floats of a block stay in the first-level cache.
inline constexpr std::size_t kHalfBlock = 512;

template <class Set>
void bfloat16_to_float(const std::uint16_t* __restrict from, float* __restrict to, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) to[i] = __builtin_bit_cast(float, std::uint32_t{from[i]} << 16);
}
template <class Set>
void float_to_bfloat16(const float* __restrict from, std::uint16_t* __restrict to, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    const auto bits = __builtin_bit_cast(std::uint32_t, from[i]);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    to[i] = static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40U : rounded);
  }
}

template <class Set>
void combine_floats(ReduceOperation operation, float* __restrict sums, const float* __restrict next,
                    std::size_t elements) {
  switch (operation) {
    case ReduceOperation::prod:
      for (std::size_t i = 0; i < elements; ++i) sums[i] = sums[i] * next[i];
      return;
    case ReduceOperation::max:
      for (std::size_t i = 0; i < elements; ++i) sums[i] = next[i] > sums[i] ? next[i] : sums[i];
      return;
    case ReduceOperation::min:
      for (std::size_t i = 0; i < elements; ++i) sums[i] = next[i] < sums[i] ? next[i] : sums[i];
      return;
    default:
      for (std::size_t i = 0; i < elements; ++i) sums[i] = sums[i] + next[i];
  }
}

template <class Set>
void load_floats(const HalfReduction& reduction, const std::byte* contribution, std::size_t first, float* to,
                 std::size_t elements) {
  if (!reduction.takes_floats) {
    return Set::to_float(reduction.type, reinterpret_cast<const std::uint16_t*>(contribution) + first, to, elements);
  }
  std::memcpy(to, contribution + first * sizeof(float), elements * sizeof(float));
}
template <class Set>
void store_floats(const HalfReduction& reduction, const float* from, std::byte* into, std::size_t first,
                  std::size_t elements) {
  if (!reduction.gives_floats) {
    return Set::to_half(reduction.type, from, reinterpret_cast<std::uint16_t*>(into) + first, elements);
  }
  std::memcpy(into + first * sizeof(float), from, elements * sizeof(float));
}

template <class Set>
void reduce_half(const HalfReduction& reduction, const std::byte* const* contributions, std::size_t members,
                 std::byte* into, std::size_t elements) {
  alignas(64) float sums[kHalfBlock];
  alignas(64) float next[kHalfBlock];
  for (std::size_t first = 0; first < elements; first += kHalfBlock) {
    const std::size_t count = elements - first < kHalfBlock ? elements - first : kHalfBlock;
    for (std::size_t member = 0; member < members; ++member) {
      load_floats<Set>(reduction, contributions[member], first, member == 0 ? sums : next, count);
      if (member != 0) combine_floats<Set>(reduction.operation, sums, next, count);
    }
    if (reduction.divisor != 1) {
      for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] / reduction.divisor;
    }
    store_floats<Set>(reduction, sums, into, first, count);
  }
}

}  // namespace outrigger::reduce
