// A service process on a DPU takes over from a dead one: it reads a rank's segment over the network, which the dead one
// must have written. Rank and service process are in one process; the network is UCX over shared memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/dpu/dpu_fabric.hpp"
#include "fabric/dpu/marks_first.hpp"
#include "fabric/dpu/probe.hpp"
#include "protocol/shared/segment.hpp"
#include "service/loop/found_posts.hpp"

// UCX keeps tables, modules and strings of its configuration until the process ends.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libucs.so\nleak:libucp.so\nleak:libuct.so\nleak:libucm.so\nleak:libuct_\nleak:libucx_\n";
}

namespace outrigger::service {
namespace {

using fabric::dpu::Attached;
using fabric::dpu::DpuFabric;
using fabric::dpu::MarksFirst;
using fabric::dpu::ProbedMemory;

constexpr const char* kTransports = "sysv,cma";
constexpr WorldRank kRank{0};
constexpr GroupId kGroup{1, 2};
constexpr std::uint32_t kProcess = 66;  // its number among those started; its proof uses place 2
constexpr std::chrono::seconds kDpuLimit{20};

class DpuTakeOverTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(OUTRIGGER_EMULATED)
    GTEST_SKIP() << "an emulated processor reads no other process's memory";
#elif defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "UCX is not built to be watched, and its own threads are reported";
#endif
    Result<std::unique_ptr<ProbedMemory>> opened = ProbedMemory::open(kTransports);
    ASSERT_TRUE(opened) << opened.error();
    rank_ = opened.value().release();
    segment_ = SegmentView(reinterpret_cast<std::byte*>(rank_->address().segment_base));
  }

  // Never closed: UCX 1.13 may abort if connections have just been made.
  void open(bool stands_by) {
    fabric::dpu::DpuOptions options;
    options.transports = kTransports;
    options.alias = false;
    options.stands_by = stands_by;
    Result<std::unique_ptr<DpuFabric>> opened = DpuFabric::open(options, *node_, kProcess, 1);
    ASSERT_TRUE(opened) << opened.error();
    fabric_ = opened.value().release();
  }
  void connect(bool stands_by) {
    open(stands_by);
    ASSERT_NE(fabric_, nullptr);
    ASSERT_TRUE(fabric_->add_rank(kRank, !stands_by, rank_->address()));
    bool reached = false;
    run_until([&] {
      const auto attached = fabric_->attachments().next();
      if (!attached) return reached;
      EXPECT_NE(attached->what, Attached::What::failed) << attached->reason;
      if (attached->what == Attached::What::wired) rank_->be_quiet();
      reached = attached->what != Attached::What::wired;
      return reached;
    });
    ASSERT_TRUE(reached);
  }
  void run_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kDpuLimit;
    while (!done() && std::chrono::steady_clock::now() < deadline) turn();
  }
  // UCX 1.13 needs progress on the other side even within a machine.
  void turn() {
    (void)fabric_->progress();
    fabric_->look_after(std::chrono::steady_clock::now(), {});
    rank_->progress();
  }

  [[nodiscard]] std::uint64_t address_of(const void* here) const { return reinterpret_cast<std::uintptr_t>(here); }
  [[nodiscard]] std::uint8_t& mark_of(std::uint32_t slot) const {
    return reinterpret_cast<std::uint8_t*>(segment_.arena())[4096 + slot];
  }
  // As the rank does.
  void post(std::uint32_t slot, std::uint64_t sequence, SlotState state) {
    *reinterpret_cast<std::uint32_t*>(segment_.arena()) = kRank.value();
    OperationSlot& shared = segment_.slot(SlotIndex{slot});
    SlotRequestBody body;
    body.request = static_cast<std::uint16_t>(SlotRequest::operation);
    body.collective = static_cast<std::uint16_t>(Collective::ialltoall);
    body.group_high = kGroup.high;
    body.group_low = kGroup.low;
    body.group_size = 1;
    body.sequence = sequence;
    body.members = LocalRef{kArenaRegion.value(), 0, address_of(segment_.arena())};
    body.marks = LocalRef{kArenaRegion.value(), 0, address_of(&mark_of(slot))};
    shared.body = body;
    std::atomic<std::uint32_t>& tail = segment_.header().ring_tail;
    shared.position = tail.load();
    shared.state.store(static_cast<std::uint32_t>(state));
    segment_.ring_entry(tail.load()).store(slot);
    tail.fetch_add(1);
  }
  void enter_group(std::uint64_t done_below) {
    GroupEntry& entry = segment_.group(0);
    entry.group_high = kGroup.high;
    entry.group_low = kGroup.low;
    entry.group_size = 1;
    entry.done_below.store(done_below);
    entry.state.store(static_cast<std::uint32_t>(GroupState::in_use));
    segment_.header().groups_used.store(1);
  }
  [[nodiscard]] SegmentView mirror() { return node_->rank(kRank)->segment(); }
  [[nodiscard]] std::uint8_t mirrored_mark(std::uint32_t slot) {
    return static_cast<std::uint8_t>(*node_->rank(kRank)->mapped(kArenaRegion, address_of(&mark_of(slot)), 1));
  }

  ProbedMemory* rank_ = nullptr;
  SegmentView segment_;
  fabric::HostFabric* node_ = new fabric::HostFabric;
  DpuFabric* fabric_ = nullptr;
};

TEST_F(DpuTakeOverTest, MirrorMatchesTheSegment) {
  post(7, 10, SlotState::done);
  post(4095, 12, SlotState::posted);
  post(2, 11, SlotState::posted);
  post(9, 13, SlotState::free);  // given back
  mark_of(4095) = 1;
  enter_group(10);
  segment_.header().completions.store(77);
  segment_.header().service_sleeping.store(1);  // written by the dead one
  connect(true);
  EXPECT_EQ(mirror().header().ring_tail.load(), 0U) << "it stands by, and reads nothing";
  fabric_->take_over().begin(kRank);
  EXPECT_FALSE(fabric_->take_over().all_read());
  run_until([&] { return fabric_->take_over().all_read(); });
  ASSERT_TRUE(fabric_->take_over().all_read());
  const Result<FoundPosts> found = find_posts(*node_->rank(kRank));
  ASSERT_TRUE(found) << found.error();
  ASSERT_EQ(found.value().operations.size(), 2U);
  EXPECT_EQ(found.value().operations[0].slot, SlotIndex{2});
  EXPECT_EQ(found.value().operations[1].slot, SlotIndex{4095});
  EXPECT_EQ(found.value().next_sequence.at(kGroup), 13U);
  EXPECT_EQ(found.value().ring_tail, 4U);
  EXPECT_EQ(mirrored_mark(4095), 1) << "what has been delivered";
  EXPECT_EQ(mirrored_mark(2), 0);
  EXPECT_EQ(mirror().header().completions.load(), 77U) << "the count goes on";

  fabric_->take_over().go_on();
  run_until([&] { return segment_.header().service_sleeping.load() == 0; });
  EXPECT_EQ(segment_.header().service_sleeping.load(), 0U) << "ranks need not ring now";
  EXPECT_EQ(segment_.header().completions.load(), 77U);
}

TEST_F(DpuTakeOverTest, PostsDuringTakeOverAreTakenOnce) {
  post(1, 1, SlotState::posted);
  connect(true);
  fabric_->take_over().begin(kRank);
  run_until([&] { return fabric_->take_over().all_read(); });
  fabric_->take_over().go_on();
  post(3, 2, SlotState::posted);
  mark_of(3) = 1;  // left over from an earlier use
  run_until([&] { return mirror().header().ring_tail.load() == 2; });
  ASSERT_EQ(mirror().header().ring_tail.load(), 2U);
  EXPECT_EQ(mirror().ring_entry(1).load(), 3U);
  EXPECT_EQ(mirror().slot(SlotIndex{3}).body.sequence, 2U);
  EXPECT_EQ(mirrored_mark(3), 0);
}

// While other ranks' segments are read or peers are awaited, slots may change. The mirror must not show states of their
// earlier use.
TEST_F(DpuTakeOverTest, ReusedSlotsAreNotMistakenForFoundPosts) {
  constexpr int kTurns = 1000;
  post(5, 10, SlotState::done);
  post(6, 11, SlotState::posted);
  enter_group(10);
  connect(true);
  fabric_->take_over().begin(kRank);
  run_until([&] { return fabric_->take_over().all_read(); });
  ASSERT_TRUE(fabric_->take_over().all_read());
  post(5, 12, SlotState::posted);  // given back, and used again
  post(7, 13, SlotState::posted);
  for (int turns = 0; turns < kTurns; ++turns) turn();
  const Result<FoundPosts> found = find_posts(*node_->rank(kRank));
  ASSERT_TRUE(found) << found.error();
  ASSERT_EQ(found.value().operations.size(), 1U);
  EXPECT_EQ(found.value().operations[0].slot, SlotIndex{6});
  EXPECT_EQ(found.value().next_sequence.at(kGroup), 12U) << "12 and 13 are not done";
  EXPECT_EQ(found.value().ring_tail, 2U) << "12 and 13 come by the ring";

  fabric_->take_over().go_on();
  run_until([&] { return mirror().header().ring_tail.load() == 4; });
  ASSERT_EQ(mirror().header().ring_tail.load(), 4U);
  EXPECT_EQ(mirror().ring_entry(2).load(), 5U);
  EXPECT_EQ(mirror().slot(SlotIndex{5}).body.sequence, 12U);
  EXPECT_EQ(mirror().ring_entry(3).load(), 7U);
}

// Records messages.
class Noting final : public fabric::PeerMessenger, public fabric::RankView {
 public:
  Noting(fabric::RankView& marks, std::vector<std::string>& said) : marks_(marks), said_(said) {}
  void send(SpId to, std::span<const std::byte>) override { said_.push_back("to " + std::to_string(to.value())); }
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override {
    marks_.mark_block(destination, slot, source, mark);
  }
  void complete(WorldRank, SlotIndex slot, const fabric::CompletionRecord&) override {
    said_.push_back("done " + std::to_string(slot.value()));
  }
  void filled(WorldRank, SlotIndex, const fabric::CompletionRecord&) override {}
  bool has_passed(WorldRank, const OperationId&, std::uint32_t) override { return false; }

 private:
  fabric::RankView& marks_;
  std::vector<std::string>& said_;
};

TEST_F(DpuTakeOverTest, MarkIsInTheRanksMemoryBeforeTheBlockIsReported) {
  connect(false);
  post(5, 1, SlotState::posted);
  run_until([&] { return mirror().header().ring_tail.load() == 1; });
  ASSERT_TRUE(node_->slots().open(kRank, SlotIndex{5}));
  node_->slots().set_marks(kRank, SlotIndex{5}, mirror().slot(SlotIndex{5}).body.marks, 1);
  std::vector<std::string> said;
  Noting noting(*fabric_, said);
  MarksFirst marks_first(noting, noting, fabric_->marks());
  fabric_->marks().on_in_place = [&] { marks_first.let_go(); };

  marks_first.send(SpId{1}, {});
  EXPECT_EQ(said, (std::vector<std::string>{"to 1"})) << "without a mark nothing waits";
  marks_first.mark_block(kRank, SlotIndex{5}, GroupRank{0}, BlockMark::delivered);
  marks_first.send(SpId{2}, {});
  marks_first.complete(kRank, SlotIndex{5}, {});
  marks_first.send(SpId{3}, {});
  EXPECT_EQ(said.size(), 1U);
  EXPECT_FALSE(fabric_->may_sleep());
  run_until([&] {
    if (said.size() == 1) return false;
    EXPECT_EQ(mark_of(5), 1);
    return said.size() == 4;
  });
  EXPECT_EQ(said, (std::vector<std::string>{"to 1", "to 2", "done 5", "to 3"})) << "in order";
  marks_first.send(SpId{4}, {});
  EXPECT_EQ(said.size(), 5U);
}

TEST_F(DpuTakeOverTest, StandbyDoesNotConnectToARankThatHasLeft) {
  open(true);
  ASSERT_TRUE(fabric_->add_rank(kRank, false, rank_->address()));
  EXPECT_EQ(node_->rank(kRank), nullptr) << "what the keeper says of it next is heard first";
  fabric_->drop_rank(kRank);
  for (int turns = 0; turns < 10; ++turns) turn();
  EXPECT_EQ(fabric_->find(kRank), nullptr);
  EXPECT_FALSE(fabric_->attachments().next());
  ASSERT_TRUE(fabric_->add_rank(kRank, false, rank_->address()));
  turn();
  EXPECT_NE(fabric_->find(kRank), nullptr);
}

// The rank answers after its object here has been destroyed. Sanitizers would see an access.
TEST_F(DpuTakeOverTest, AnswersOfARemovedRankAreIgnored) {
  constexpr int kTurns = 200;
  connect(false);
  post(5, 1, SlotState::posted);
  run_until([&] { return mirror().header().ring_tail.load() == 1; });
  post(6, 2, SlotState::posted);
  (void)fabric_->progress();  // sends the request; no answer yet
  fabric_->drop_rank(kRank);
  node_->drop_rank(kRank);
  for (int turns = 0; turns < kTurns; ++turns) turn();
  EXPECT_EQ(fabric_->find(kRank), nullptr);
}

TEST_F(DpuTakeOverTest, MarksOfARemovedRankBlockNoOtherRank) {
  connect(false);
  post(5, 1, SlotState::posted);
  run_until([&] { return mirror().header().ring_tail.load() == 1; });
  std::vector<std::string> said;
  Noting noting(*fabric_, said);
  MarksFirst marks_first(noting, noting, fabric_->marks());
  fabric_->marks().on_in_place = [&] { marks_first.let_go(); };
  fabric_->marks().add(kRank, SlotIndex{5}, GroupRank{0});
  marks_first.send(SpId{2}, {});
  EXPECT_TRUE(said.empty());
  fabric_->drop_rank(kRank);
  node_->drop_rank(kRank);
  run_until([&] { return !said.empty(); });
  EXPECT_EQ(said.size(), 1U);
}

}  // namespace
}  // namespace outrigger::service
