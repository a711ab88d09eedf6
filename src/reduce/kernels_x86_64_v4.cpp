#include "reduce/elementwise.hpp"
#include "reduce/kernel_tables.hpp"

namespace outrigger::reduce {

struct Level4;
constexpr KernelTable kLevel4 = make_table<Level4>();

const KernelTable& kernels_x86_64_v4() {
  return kLevel4;
}

}  // namespace outrigger::reduce
