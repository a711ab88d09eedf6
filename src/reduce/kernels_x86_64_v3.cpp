#include "reduce/elementwise.hpp"
#include "reduce/kernel_tables.hpp"

namespace outrigger::reduce {

struct Level3;
constexpr KernelTable kLevel3 = make_table<Level3>();

const KernelTable& kernels_x86_64_v3() {
  return kLevel3;
}

}  // namespace outrigger::reduce
