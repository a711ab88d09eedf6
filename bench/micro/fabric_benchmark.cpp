// Moves of the host fabric alone: all blocks of an all-to-all between ranks whose memory is mapped, by chunk size.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "fabric/host/host_fabric.hpp"

namespace outrigger {
namespace {

class Counter final : public fabric::MoveCompletion {
 public:
  void moved(const fabric::MoveOutcome& outcome) override {
    if (outcome.status != fabric::MoveStatus::ok) std::abort();
    ++ended;
  }
  std::size_t ended = 0;
};

Mapping map_fresh(std::uint64_t bytes) {
  auto fd = create_sealed_memory("outrigger-bench", bytes, Backing::on_touch);
  if (!fd) std::abort();
  auto mapping = Mapping::map(fd.value().get(), bytes);
  if (!mapping) std::abort();
  std::memset(mapping.value().base(), 1, bytes);
  return std::move(mapping).value();
}

void alltoall_moves(benchmark::State& state) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const auto block_bytes = static_cast<std::uint64_t>(state.range(1));
  fabric::HostFabricOptions options;
  options.chunk_bytes = options.progress_bytes = static_cast<std::uint64_t>(state.range(2));
  fabric::HostFabric fabric(options);
  constexpr std::uint64_t kSend = 0x1'0000'0000;
  constexpr std::uint64_t kReceive = 0x2'0000'0000;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    fabric::RankMemory memory(::getpid(), map_fresh(SegmentView::segment_bytes()), false);
    if (!memory.add_region(RegionId{2}, kSend, map_fresh(ranks * block_bytes)) ||
        !memory.add_region(RegionId{3}, kReceive, map_fresh(ranks * block_bytes))) {
      std::abort();
    }
    fabric.add_rank(WorldRank{rank}, std::move(memory));
  }
  Counter counter;
  for (auto _ : state) {
    counter.ended = 0;
    for (std::uint32_t step = 0; step < ranks; ++step) {
      for (std::uint32_t to = 0; to < ranks; ++to) {
        const std::uint32_t from = (to + step) % ranks;
        fabric.move(Block{MemoryRef{WorldRank{from}, RegionId{2}, kSend + to * block_bytes}, block_bytes},
                    Block{MemoryRef{WorldRank{to}, RegionId{3}, kReceive + from * block_bytes}, block_bytes}, counter);
      }
    }
    while (counter.ended != std::size_t{ranks} * ranks) (void)fabric.progress();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(std::uint64_t{ranks} * ranks * block_bytes) * state.iterations());
}

BENCHMARK(alltoall_moves)
    ->ArgNames({"ranks", "block", "chunk"})
    ->ArgsProduct({{2, 4}, {1 << 20}, {64 << 10, 256 << 10, 1 << 20}})
    ->ArgsProduct({{8}, {1 << 10}, {256 << 10}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace outrigger

BENCHMARK_MAIN();
