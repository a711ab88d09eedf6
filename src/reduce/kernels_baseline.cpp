#include "reduce/elementwise.hpp"
#include "reduce/kernel_tables.hpp"

namespace outrigger::reduce {

struct Baseline;
constexpr KernelTable kBaseline = make_table<Baseline>();

const KernelTable& kernels_baseline() {
  return kBaseline;
}

}  // namespace outrigger::reduce
