#include "intranode/sums/sum_kernels.hpp"

namespace outrigger::intranode {
namespace {
struct Fused_baseline;
}  // namespace

const FusedKernels& fused_baseline() {
  static constexpr FusedKernels kernels = make_fused<Fused_baseline, 16>();
  return kernels;
}

}  // namespace outrigger::intranode
