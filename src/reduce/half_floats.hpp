// Reductions of 16-bit floating-point numbers, of all contributions at once: each is converted to float, they are
// combined in their order, and the result is rounded once, to the nearest, ties to even. So sums of many contributions
// do not lose what each of them would lose alone.
//
//     max, min   as in reduce.hpp
//     NaN        becomes a quiet NaN
//
// Thread rule: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/reduction.hpp"

namespace outrigger::reduce {

enum class HalfFloat : std::uint8_t { float16, bfloat16 };

// `operation`: sum, prod, max or min. `divisor`: of each result before it is rounded. `into` overlaps no contribution,
// or is exactly one of them. At least one contribution. `takes_floats`: contributions are partial results of type
// float; `gives_floats`: so is the result.
struct HalfReduction {
  HalfFloat type = HalfFloat::bfloat16;
  ReduceOperation operation = ReduceOperation::sum;
  float divisor = 1;
  bool takes_floats = false;
  bool gives_floats = false;
};
using HalfKernel = void (*)(const HalfReduction& reduction, const std::byte* const* contributions, std::size_t members,
                            std::byte* into, std::size_t elements);

// The fastest on this processor, and the one for every processor. Both give the same bits.
[[nodiscard]] HalfKernel half_kernel();
void reduce_half_baseline(const HalfReduction& reduction, const std::byte* const* contributions, std::size_t members,
                          std::byte* into, std::size_t elements);
#if defined(__x86_64__)
void reduce_half_x86_64_v3(const HalfReduction& reduction, const std::byte* const* contributions, std::size_t members,
                           std::byte* into, std::size_t elements);
#endif

}  // namespace outrigger::reduce
