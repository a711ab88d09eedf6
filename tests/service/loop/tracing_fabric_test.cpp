// A traced move is recorded once, in whatever order moves end; a cancelled one is not recorded.
#include "service/loop/tracing_fabric.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "fabric/sim/bare_fabric.hpp"

namespace outrigger::service {
namespace {

using fabric::MoveCompletion;

class Moves final : public fabric::sim::BareFabric {
 public:
  void move(const Block& /*from*/, const Block& /*to*/, const BlockId* /*name*/, MoveCompletion& completion) override {
    begun.push_back(&completion);
  }
  void cancel(MoveCompletion& completion) override { cancelled.push_back(&completion); }
  void send(SpId /*to*/, std::span<const std::byte> /*message*/) override {}
  void mark_block(WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/, BlockMark /*mark*/) override {}
  void complete(WorldRank /*rank*/, SlotIndex /*slot*/, const fabric::CompletionRecord& /*record*/) override {}

  std::vector<MoveCompletion*> begun;
  std::vector<MoveCompletion*> cancelled;
};

class Waiter final : public MoveCompletion {
 public:
  void moved(const fabric::MoveOutcome& /*outcome*/) override { ++ended; }
  int ended = 0;
};

class TracedMoves : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<trace::Memory> made = trace::Memory::create();
    ASSERT_TRUE(made);
    memory_ = std::move(made).value();
    ASSERT_TRUE(log_.add_rank(kRank, UniqueFd(::dup(memory_.fd()))));
  }
  void begin(std::uint64_t bytes, Waiter& waiter) {
    Block block;
    block.memory.owner = kRank;
    block.bytes = bytes;
    traced_.move(block, block, nullptr, waiter);
  }
  [[nodiscard]] std::vector<std::uint64_t> noted_bytes() const {
    std::vector<std::uint64_t> bytes;
    for (std::uint64_t i = 0; i < memory_.header().service_events; ++i)
      bytes.push_back(memory_.service_events()[i].bytes);
    return bytes;
  }

  static constexpr WorldRank kRank{5};
  trace::Memory memory_;
  Moves moves_;
  TraceLog log_;
  TracingFabric traced_{moves_, moves_, log_};
};

TEST_F(TracedMoves, AreRecordedInTheOrderOfTheirEnd) {
  std::vector<Waiter> waiters(4);
  for (std::uint64_t i = 0; i < 3; ++i) begin(i + 1, waiters[i]);
  moves_.begun[1]->moved({});
  begin(4, waiters[3]);
  moves_.begun[3]->moved({});
  moves_.begun[0]->moved({});
  moves_.begun[2]->moved({});
  EXPECT_EQ(noted_bytes(), (std::vector<std::uint64_t>{2, 4, 1, 3}));
  for (const Waiter& waiter : waiters) EXPECT_EQ(waiter.ended, 1);
}

TEST_F(TracedMoves, CancelledOnesAreNotRecorded) {
  std::vector<Waiter> waiters(3);
  for (std::uint64_t i = 0; i < 3; ++i) begin(i + 1, waiters[i]);
  traced_.cancel(waiters[0]);
  ASSERT_EQ(moves_.cancelled, (std::vector<MoveCompletion*>{moves_.begun[0]}));
  moves_.begun[2]->moved({});
  traced_.cancel(waiters[2]);  // it has ended
  moves_.begun[1]->moved({});
  EXPECT_EQ(moves_.cancelled.size(), 1U);
  EXPECT_EQ(noted_bytes(), (std::vector<std::uint64_t>{3, 2}));
  EXPECT_EQ(waiters[0].ended, 0);
}

TEST_F(TracedMoves, EndTakenOperations) {
  engine::PostedOperation posted;
  posted.rank = kRank;
  posted.slot = SlotIndex{9};
  posted.id = OperationId{GroupId{1, 2}, 3};
  traced_.complete(kRank, posted.slot, {});  // not taken by any tracer
  log_.taken(posted);
  traced_.complete(kRank, posted.slot, {});
  traced_.complete(kRank, posted.slot, {});
  ASSERT_EQ(memory_.header().service_events, 2U);
  EXPECT_EQ(memory_.service_events()[0].kind, static_cast<std::uint8_t>(trace::EventKind::taken));
  EXPECT_EQ(memory_.service_events()[1].kind, static_cast<std::uint8_t>(trace::EventKind::ended));
  EXPECT_EQ(memory_.service_events()[1].sequence, 3U);
}

}  // namespace
}  // namespace outrigger::service
