// Reductions of memory: every operation and type of MPI's, elementwise, by the widest instructions that the processor
// has. Bits do not depend on these: each element is one operation of the type, in the order left, right, and products
// and sums are not fused.
//
// What the elements come to, where MPI leaves it open:
//     max, min       `right` only where it is greater (less): with a NaN on either side, `left`. So MPICH does it; Open
//                    MPI has `right` there
//     maxloc, minloc equal values: the lower index; with a NaN on either side, `left`
//     land, lor, lxor  what is not zero is true; the result is 1 or 0
//     sum, prod      of integers modulo 2^n; of complex numbers as C does it, with infinities
// Gaps within elements (of double_int, the last six bytes of a long double) are left as they are.
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
  baseline,   // what the compiler takes by itself: SSE2, NEON
  x86_64_v2,  // the vector instructions of that level: SSE4.2
  x86_64_v3,  // AVX2
  x86_64_v4,  // AVX-512 F, BW, DQ, VL
};
[[nodiscard]] std::string_view name_of(InstructionSet set);

// Those that this processor has, in ascending order. Never empty.
[[nodiscard]] const std::vector<InstructionSet>& instruction_sets();
// Of one that instruction_sets() has.
[[nodiscard]] Kernel kernel_of(InstructionSet set, const Reduction& reduction);

// With the last of them. Null: not defined.
[[nodiscard]] Kernel kernel_of(const Reduction& reduction);

// All elements of `into`; the three have equally many bytes, of whole elements.
void apply(const Reduction& reduction, std::span<const std::byte> left, std::span<const std::byte> right,
           std::span<std::byte> into);

}  // namespace outrigger::reduce
