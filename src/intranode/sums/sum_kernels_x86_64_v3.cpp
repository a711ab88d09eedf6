#include "intranode/sums/sum_kernels.hpp"

namespace outrigger::intranode {
namespace {
struct Fused_x86_64_v3;
}  // namespace

const FusedKernels& fused_x86_64_v3() {
  static constexpr FusedKernels kernels = make_fused<Fused_x86_64_v3, 32>();
  return kernels;
}

}  // namespace outrigger::intranode
