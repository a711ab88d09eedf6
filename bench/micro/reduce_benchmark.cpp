// Reductions of memory compared with STREAM's add, c[i] = a[i] + b[i], as the compiler builds it from the plain loop;
// counts bytes read and written. Three buffers; then by instruction set and some types.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "reduce/reduce.hpp"

namespace outrigger::reduce {
namespace {

void stream_add(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(double);
  std::vector<double> a(count, 1);
  std::vector<double> b(count, 2);
  std::vector<double> c(count, 0);
  for (auto _ : state) {
    for (std::size_t i = 0; i < count; ++i) c[i] = a[i] + b[i];
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(3 * count * sizeof(double)) * state.iterations());
}

void reduce_buffers(benchmark::State& state, InstructionSet set, const Reduction& reduction) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> left(bytes);
  const std::vector<std::byte> right(bytes);
  std::vector<std::byte> into(bytes);
  const Kernel kernel = kernel_of(set, reduction);
  for (auto _ : state) {
    kernel(left.data(), right.data(), into.data(), bytes / reduction.element_bytes());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(3 * bytes) * state.iterations());
}

void register_all() {
  const std::vector<std::int64_t> sizes{64 << 10, 1 << 20, 64 << 20};
  benchmark::RegisterBenchmark("stream_add", stream_add)->ArgsProduct({sizes});
  for (const InstructionSet set : instruction_sets()) {
    for (const Reduction reduction :
         {Reduction{ReduceOperation::sum, ElementType::float64}, Reduction{ReduceOperation::sum, ElementType::float32},
          Reduction{ReduceOperation::max, ElementType::int32},
          Reduction{ReduceOperation::prod, ElementType::complex_double},
          Reduction{ReduceOperation::maxloc, ElementType::double_int}}) {
      const std::string name = std::string(name_of(set)) + "/" + std::string(outrigger::name_of(reduction.operation)) +
                               "/" + std::string(outrigger::name_of(reduction.type));
      benchmark::RegisterBenchmark(name.c_str(), reduce_buffers, set, reduction)->ArgsProduct({sizes});
    }
  }
}

}  // namespace
}  // namespace outrigger::reduce

int main(int argc, char** argv) {
  outrigger::reduce::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
