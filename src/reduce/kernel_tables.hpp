// The kernels of each instruction set, each compiled with its own options (CMakeLists.txt).
#pragma once

#include <cstddef>

#include "protocol/reduction.hpp"

namespace outrigger::reduce {

// into[i] = left[i] op right[i] for `elements` elements, at any alignment. `into` may be `left`; otherwise it overlaps
// neither operand.
using Kernel = void (*)(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements);

struct KernelTable {
  // By index_of() of both; nullptr if the operation is not defined for the type.
  Kernel kernels[kReduceOperations.size()][kElementTypes.size()];
};

[[nodiscard]] const KernelTable& kernels_baseline();
#if defined(__x86_64__)
[[nodiscard]] const KernelTable& kernels_x86_64_v2();
[[nodiscard]] const KernelTable& kernels_x86_64_v3();
[[nodiscard]] const KernelTable& kernels_x86_64_v4();
#endif

}  // namespace outrigger::reduce
