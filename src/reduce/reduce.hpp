// Elementwise reductions of memory: all operations and types of MPI, with the processor's widest instructions. The bits
// do not depend on the instructions: each element is one operation of the type, in the order left, right; products and
// sums are not fused.
//
// Results that MPI leaves open:
//     max, min       `right` only if it is greater (less); `left` if either is NaN. MPICH does the same; Open MPI
//                    returns `right` for NaN
//     maxloc, minloc equal values: the lower index; `left` if either is NaN
//     land, lor, lxor  Nonzero values are true. The result is 1 or 0.
//     sum, prod      Integers are modulo 2^n. Complex numbers are as in C, with infinities.
// Gaps within elements (of double_int, the last six bytes of a long double) are not changed.
//
// Thread rule: any.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/reduction.hpp"
#include "reduce/kernel_tables.hpp"

namespace outrigger::reduce {

enum class InstructionSet : std::uint8_t {
  baseline,   // the compiler's default: SSE2, NEON
  x86_64_v2,  // the vector instructions of that level: SSE4.2
  x86_64_v3,  // AVX2
  x86_64_v4,  // AVX-512 F, BW, DQ, VL
};
[[nodiscard]] std::string_view name_of(InstructionSet set);

// The sets that this processor has, in ascending order. Never empty.
[[nodiscard]] const std::vector<InstructionSet>& instruction_sets();
// `set`: one of instruction_sets().
[[nodiscard]] Kernel kernel_of(InstructionSet set, const Reduction& reduction);

// For the last of instruction_sets(). nullptr if not defined.
[[nodiscard]] Kernel kernel_of(const Reduction& reduction);

// Reduces all elements; the three ranges have the same length, in whole elements.
void apply(const Reduction& reduction, std::span<const std::byte> left, std::span<const std::byte> right,
           std::span<std::byte> into);

}  // namespace outrigger::reduce
