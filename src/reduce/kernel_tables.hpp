// The kernels of each instruction set, each compiled with its own options (CMakeLists.txt).
#pragma once

#include "reduce/reduce.hpp"

namespace outrigger::reduce {

[[nodiscard]] const KernelTable& kernels_baseline();
#if defined(__x86_64__)
[[nodiscard]] const KernelTable& kernels_x86_64_v2();
[[nodiscard]] const KernelTable& kernels_x86_64_v3();
[[nodiscard]] const KernelTable& kernels_x86_64_v4();
#endif

}  // namespace outrigger::reduce
