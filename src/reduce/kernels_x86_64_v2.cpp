#include "reduce/elementwise.hpp"
#include "reduce/kernel_tables.hpp"

namespace outrigger::reduce {

struct Level2;
constexpr KernelTable kLevel2 = make_table<Level2>();

const KernelTable& kernels_x86_64_v2() {
  return kLevel2;
}

}  // namespace outrigger::reduce
