// Moves of the host fabric alone: all blocks of an all-to-all between ranks with mapped memory, by chunk size; and all
// blocks except the ranks' own by reach: relay, copier, mapped.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/copies/copier.hpp"
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
                    Block{MemoryRef{WorldRank{to}, RegionId{3}, kReceive + from * block_bytes}, block_bytes}, nullptr,
                    counter);
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

enum class Way { relay = 0, copier = 1, mapped = 2 };

// A process that acts as a rank with private memory, with a copier if `way` needs one.
class RankProcess {
 public:
  // Announces in the segment that its memory and its copier are ready.
  RankProcess(SegmentView segment, std::span<std::byte> memory, std::uint64_t* probe, Way way, int cpu) {
    pid_ = ::fork();
    if (pid_ != 0) {
      while (segment.header().rank_base_address.load() == 0) ::sched_yield();
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::memset(memory.data(), 2, memory.size());  // touches its own pages
    *probe = static_cast<std::uint64_t>(::getpid());
    client::HugePages pages;  // makes none
    client::Copier copier;
    if (way == Way::copier) copier.start(segment.header().copies, pages, cpu);
    while (way == Way::copier && !copier.runs()) ::sched_yield();
    segment.header().rank_base_address.store(1);
    while (true) ::pause();
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// The last core that this process may use: a service process would be there.
int take_core() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) std::abort();
  int cpu = CPU_SETSIZE - 1;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) --cpu;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) std::abort();
  return cpu;
}

void moves_by_reach(benchmark::State& state) {
  const auto way = static_cast<Way>(state.range(0));
  const auto ranks = static_cast<std::uint32_t>(state.range(1));
  const auto block_bytes = static_cast<std::uint64_t>(state.range(2));
  const std::uint64_t side_bytes = ranks * block_bytes;
  static const int cpu = take_core();
  auto* memory = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * side_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(memory, 1, 2 * side_bytes);
  const auto send = reinterpret_cast<std::uintptr_t>(memory);
  const std::uint64_t receive = send + side_bytes;
  auto probe = std::make_unique<std::uint64_t>(0);
  fabric::HostFabric fabric;
  std::vector<std::unique_ptr<RankProcess>> processes;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Mapping segment = map_fresh(SegmentView::segment_bytes());
    std::memset(segment.base(), 0, sizeof(SegmentHeader));
    if (::madvise(segment.base(), SegmentView::segment_bytes(), MADV_DOFORK) != 0) std::abort();
    processes.push_back(std::make_unique<RankProcess>(SegmentView(segment.base()), std::span(memory, 2 * side_bytes),
                                                      probe.get(), way, cpu));
    fabric::RankMemory own(processes.back()->pid(), std::move(segment), true);
    if (way == Way::mapped && !own.add_region(RegionId{2}, send, map_fresh(2 * side_bytes))) std::abort();
    if (way == Way::copier) own.set_probe(reinterpret_cast<std::uintptr_t>(probe.get()));
    fabric.add_rank(WorldRank{rank}, std::move(own));
    if (way == Way::copier) fabric.expect_copier(WorldRank{rank});
  }
  const RegionId region = way == Way::mapped ? RegionId{2} : kPrivateRegion;
  Counter counter;
  for (auto _ : state) {
    counter.ended = 0;
    for (std::uint32_t step = 1; step < ranks; ++step) {
      for (std::uint32_t to = 0; to < ranks; ++to) {
        const std::uint32_t from = (to + step) % ranks;
        fabric.move(Block{MemoryRef{WorldRank{from}, region, send + to * block_bytes}, block_bytes},
                    Block{MemoryRef{WorldRank{to}, region, receive + from * block_bytes}, block_bytes}, nullptr,
                    counter);
      }
    }
    while (counter.ended != std::size_t{ranks} * (ranks - 1)) (void)fabric.progress();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(std::uint64_t{ranks} * (ranks - 1) * block_bytes) *
                          state.iterations());
  state.SetLabel(way == Way::relay ? "relay" : way == Way::copier ? "copier" : "mapped");
  ::munmap(memory, 2 * side_bytes);
}

BENCHMARK(moves_by_reach)
    ->ArgNames({"way", "ranks", "block"})
    ->ArgsProduct({{0, 1, 2}, {2, 4}, {16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace outrigger

BENCHMARK_MAIN();
