// Waiting operations are checked once a second, also in a sleeping service process. The test controls the clock.
#include "service/loop/overdue_watch.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "fabric/sim/bare_fabric.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Rank 1 has left the call to its MPI.
class PassedFabric final : public fabric::sim::BareFabric {
 public:
  void move(const Block& /*from*/, const Block& /*to*/, const BlockId* /*name*/,
            fabric::MoveCompletion& /*completion*/) override {}
  void cancel(fabric::MoveCompletion& /*completion*/) override {}
  void send(SpId /*to*/, std::span<const std::byte> /*message*/) override {}
  void mark_block(WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/, BlockMark /*mark*/) override {}
  bool has_passed(WorldRank rank, const OperationId& /*operation*/, std::uint32_t /*native_calls*/) override {
    return rank == WorldRank{1};
  }
  void complete(WorldRank /*rank*/, SlotIndex /*slot*/, const fabric::CompletionRecord& record) override {
    completed.push_back(record);
  }
  std::vector<fabric::CompletionRecord> completed;
};

engine::EngineConfig two_ranks() {
  engine::EngineConfig config;
  config.sp_of_rank = {SpId{0}, SpId{0}};
  return config;
}

engine::PostedOperation some_operation() {
  engine::PostedOperation operation;
  operation.rank = WorldRank{0};
  operation.id = OperationId{GroupId{7, 9}, 0};
  operation.members = std::make_shared<const std::vector<WorldRank>>(std::vector{WorldRank{0}, WorldRank{1}});
  operation.send.base.owner = operation.receive.base.owner = operation.rank;
  operation.send.block_bytes = operation.receive.block_bytes = 8;
  operation.send.stride_bytes = operation.receive.stride_bytes = 8;
  operation.own_block_done = true;
  return operation;
}

TEST(OverdueWatch, FailsAnOperationAfterASecond) {
  PassedFabric fabric;
  engine::Engine engine(two_ranks(), fabric.seams());
  OverdueWatch watch([&] { return &engine; });
  OverdueWatch::Clock::time_point now{seconds(1000)};
  EXPECT_FALSE(watch.sleep_limit(now)) << "nothing waits";

  engine.post(some_operation());
  static_cast<void>(engine.run());
  watch.look_after(now, {});
  EXPECT_TRUE(watch.arm());
  EXPECT_EQ(watch.sleep_limit(now), seconds(1));

  now += milliseconds(999);
  watch.look_after(now, {});
  EXPECT_TRUE(watch.arm());
  EXPECT_EQ(watch.sleep_limit(now), milliseconds(1));

  now += milliseconds(1);
  watch.look_after(now, {});
  EXPECT_FALSE(watch.arm()) << "the engine has something to do";
  EXPECT_TRUE(watch.arm());
  static_cast<void>(engine.run());
  ASSERT_EQ(fabric.completed.size(), 1U);
  EXPECT_EQ(fabric.completed[0].status, CompletionStatus::passed_natively);
  EXPECT_EQ(fabric.completed[0].passed_by, WorldRank{1});
  EXPECT_FALSE(watch.sleep_limit(now));
}

TEST(OverdueWatch, WaitsForAnEngine) {
  OverdueWatch watch([] { return nullptr; });
  watch.look_after(OverdueWatch::Clock::time_point{seconds(1000)}, {});
  EXPECT_TRUE(watch.arm());
  EXPECT_FALSE(watch.sleep_limit(OverdueWatch::Clock::time_point{seconds(1001)}));
}

}  // namespace
}  // namespace outrigger::service
