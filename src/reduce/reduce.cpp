#include "reduce/reduce.hpp"

#include <cassert>

namespace outrigger::reduce {
namespace {

std::vector<InstructionSet> find_instruction_sets() {
  std::vector<InstructionSet> sets{InstructionSet::baseline};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) sets.push_back(InstructionSet::x86_64_v2);
  if (__builtin_cpu_supports("avx2")) sets.push_back(InstructionSet::x86_64_v3);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    sets.push_back(InstructionSet::x86_64_v4);
  }
#endif
  return sets;
}

const KernelTable& table_of(InstructionSet set) {
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::x86_64_v2: return kernels_x86_64_v2();
    case InstructionSet::x86_64_v3: return kernels_x86_64_v3();
    case InstructionSet::x86_64_v4: return kernels_x86_64_v4();
#endif
    default: return kernels_baseline();
  }
}

}  // namespace

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline: return "baseline";
    case InstructionSet::x86_64_v2: return "x86-64-v2";
    case InstructionSet::x86_64_v3: return "x86-64-v3";
    case InstructionSet::x86_64_v4: return "x86-64-v4";
  }
  return "unknown";
}

const std::vector<InstructionSet>& instruction_sets() {
  static const std::vector<InstructionSet> sets = find_instruction_sets();
  return sets;
}

Kernel kernel_of(InstructionSet set, const Reduction& reduction) {
  return table_of(set).kernels[index_of(reduction.operation)][index_of(reduction.type)];
}

Kernel kernel_of(const Reduction& reduction) {
  static const KernelTable& best = table_of(instruction_sets().back());
  return best.kernels[index_of(reduction.operation)][index_of(reduction.type)];
}

void apply(const Reduction& reduction, std::span<const std::byte> left, std::span<const std::byte> right,
           std::span<std::byte> into) {
  assert(left.size() == into.size() && right.size() == into.size() &&
         "operands and result of a reduction have the same length");
  assert(into.size() % reduction.element_bytes() == 0 && "a reduction has whole elements");
  const Kernel kernel = kernel_of(reduction);
  assert(kernel != nullptr && "decode_reduction() accepts only defined reductions");
  kernel(left.data(), right.data(), into.data(), into.size() / reduction.element_bytes());
}

}  // namespace outrigger::reduce
