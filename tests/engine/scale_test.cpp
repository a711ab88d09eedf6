// Cost of a move in the engine. The limits are far above measured values: they catch a step that has become
// proportional to the group, not a slow machine.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

#include "engine/engine.hpp"
#include "instant_fabric.hpp"

namespace outrigger::engine {
namespace {

double run_ns_per_move(std::uint32_t ranks, std::uint64_t operations, Algorithm algorithm) {
  InstantFabric fabric;
  EngineConfig config;
  config.sp_of_rank.assign(ranks, SpId{0});
  Engine engine(config, fabric.seams());
  std::vector<WorldRank> list;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) list.emplace_back(rank);
  const auto members = std::make_shared<const std::vector<WorldRank>>(list);
  const std::clock_t start = std::clock();  // processor time: the machine may be busy
  for (std::uint64_t sequence = 0; sequence < operations; ++sequence) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      PostedOperation posted;
      posted.rank = WorldRank{rank};
      posted.id = OperationId{GroupId{1, 1}, sequence};
      posted.members = members;
      posted.me = GroupRank{rank};
      posted.algorithm = algorithm;
      posted.send.base.owner = posted.receive.base.owner = WorldRank{rank};
      posted.send.block_bytes = posted.receive.block_bytes = 64;
      posted.own_block_done = true;
      engine.post(std::move(posted));
    }
    while (engine.run() || fabric.progress()) {
    }
  }
  const double spent_ns = static_cast<double>(std::clock() - start) * 1e9 / CLOCKS_PER_SEC;
  const std::uint64_t moves = std::uint64_t{ranks} * (ranks - 1) * operations;
  EXPECT_EQ(fabric.marks, moves);
  EXPECT_EQ(fabric.completions, ranks * operations);
  EXPECT_EQ(fabric.sent, 0U);
  EXPECT_TRUE(engine.idle());
  return spent_ns / static_cast<double>(moves);
}

TEST(Scale, AMillionMoves) {
  for (const Algorithm algorithm : {Algorithm::ring_pull, Algorithm::scatter_dest}) {
    const double large = run_ns_per_move(1000, 1, algorithm);
    const double small = run_ns_per_move(8, 2000, algorithm);
    std::printf("%s: %.0f ns a move in a group of 1000, %.0f ns in groups of 8 (%.1f us an operation of 8 ranks)\n",
                std::string(name_of(algorithm)).c_str(), large, small, small * 56 / 1000);
    RecordProperty(std::string(name_of(algorithm)) + "_ns_per_move", std::to_string(large));
  }
}

}  // namespace
}  // namespace outrigger::engine
