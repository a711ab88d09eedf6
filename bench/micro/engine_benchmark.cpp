// Cost of an operation in the engine alone: all ranks have one service process, and moves end at once.
#include <benchmark/benchmark.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "engine/instant_fabric.hpp"

namespace outrigger {
namespace {

void engine_alltoall(benchmark::State& state) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  InstantFabric fabric;
  engine::EngineConfig config;
  config.sp_of_rank.assign(ranks, SpId{0});
  engine::Engine engine(config, fabric.seams());
  std::vector<WorldRank> list;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) list.emplace_back(rank);
  const auto members = std::make_shared<const std::vector<WorldRank>>(std::move(list));
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      engine::PostedOperation posted;
      posted.rank = WorldRank{rank};
      posted.id = OperationId{GroupId{1, 1}, sequence};
      posted.members = members;
      posted.me = GroupRank{rank};
      posted.algorithm = static_cast<Algorithm>(state.range(1));
      posted.send.base.owner = posted.receive.base.owner = WorldRank{rank};
      posted.send.block_bytes = posted.receive.block_bytes = 64;
      posted.own_block_done = true;
      engine.post(std::move(posted));
    }
    while (engine.run() || fabric.progress()) {
    }
    ++sequence;
  }
  if (!engine.idle()) state.SkipWithError("an operation does not end");
  state.SetItemsProcessed(static_cast<std::int64_t>(std::uint64_t{ranks} * (ranks - 1)) * state.iterations());
}

BENCHMARK(engine_alltoall)
    ->ArgNames({"ranks", "algorithm"})
    ->ArgsProduct({{2, 8, 64, 1000}, {1, 2}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace outrigger

BENCHMARK_MAIN();
