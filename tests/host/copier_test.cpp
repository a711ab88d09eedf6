// Moves that copiers make: the real one (a thread of this process, which plays a rank), and takers that misbehave.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/cross_memory.hpp"
#include "copiers_fixture.hpp"

namespace outrigger::copier_test {
namespace {

using namespace std::chrono_literals;
using fabric::MoveStatus;
using testing::address_of;
using testing::byte_at;
using testing::Copiers;
using testing::Ended;
using testing::kBytes;
using testing::kElsewhere;
using testing::kHere;

class TestsTaker : public Copiers {
 protected:
  TestsTaker() : Copiers(100ms) {}
};

// Time for a thread of the test to come and take something on a busy machine.
class SlowTaker : public Copiers {
 protected:
  SlowTaker() : Copiers(2s) {}
};

TEST_F(Copiers, NobodyIsWantedForWhatIsMappedOrSmall) {
  EXPECT_EQ(move(childs(0, 1000), mine(0, 1000)).reach, Reach::relay);
  EXPECT_EQ(copy_queue().wanted.load(), 0U);
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::relay) << "nobody is there yet";
  EXPECT_EQ(copy_queue().wanted.load(), 1U);
}

TEST_F(Copiers, PullIntoOwnMemory) {
  start_copier();
  const Outcome outcome = move(childs(3, kBytes - 10), mine(7, kBytes - 10));
  EXPECT_EQ(outcome.status, MoveStatus::ok);
  EXPECT_EQ(outcome.reach, Reach::copier);
  EXPECT_EQ(memory_[6], std::byte{0}) << "before the block";
  EXPECT_EQ(memory_[kBytes - 3], std::byte{0}) << "behind the block";
  expect_bytes(memory_, 7, 3, kBytes - 10);
  EXPECT_EQ(move(childs(0, 4096), mine(0, 4096)).reach, Reach::relay) << "small";
}

TEST_F(Copiers, PushFromOwnMemoryWhereTheOtherSideHasNone) {
  start_copier();
  for (std::uint64_t i = 0; i < kBytes; ++i) other_[i] = byte_at(i + 5);
  const Outcome outcome = move(mine_too(0, kBytes), childs(0, kBytes));
  EXPECT_EQ(outcome.status, MoveStatus::ok);
  EXPECT_EQ(outcome.reach, Reach::copier);
  ASSERT_EQ(read_cross_memory(child_, address_of(memory_.data()), memory_), 0);
  expect_bytes(memory_, 0, 5, kBytes);
}

TEST_F(Copiers, OwnBlockIsCopiedWithin) {
  start_copier();
  for (std::uint64_t i = 0; i < kBytes; ++i) other_[i] = byte_at(i);
  EXPECT_EQ(move(mine_too(1, kBytes - 1), mine(0, kBytes - 1)).reach, Reach::copier);
  expect_bytes(memory_, 0, 1, kBytes - 1);
}

TEST_F(Copiers, ManyMovesAtOnceAllArrive) {
  start_copier();
  std::mt19937 random(7);
  constexpr std::uint64_t kBlock = 96 << 10;
  constexpr std::size_t kMoves = kBytes / kBlock;
  for (int round = 0; round < 20; ++round) {
    std::memset(memory_.data(), 0, kBytes);
    std::vector<std::unique_ptr<Ended>> ends;
    std::vector<std::uint64_t> bytes;
    for (std::size_t i = 0; i < kMoves; ++i) {
      bytes.push_back(1 + random() % kBlock);
      ends.push_back(std::make_unique<Ended>());
      fabric_.move(childs(i * kBlock, bytes[i]), mine(i * kBlock, bytes[i]), nullptr, *ends[i]);
      if (random() % 3 == 0) (void)fabric_.progress();
    }
    for (std::size_t i = 0; i < kMoves; ++i) {
      progress_until(*ends[i]);
      ASSERT_TRUE(ends[i]->ended());
      ASSERT_EQ(ends[i]->status(), MoveStatus::ok);
      expect_bytes(memory_, i * kBlock, i * kBlock, bytes[i]);
      if (bytes[i] != kBlock) {
        ASSERT_EQ(memory_[i * kBlock + bytes[i]], std::byte{0});
      }
    }
    EXPECT_EQ(fabric_.moves_in_flight(), 0U);
  }
}

TEST_F(Copiers, WhatIsNotThereFaultsAndWhoIsGoneIsLost) {
  start_copier();
  EXPECT_EQ(move(Block{MemoryRef{kElsewhere, kPrivateRegion, 4096}, kBytes}, mine(0, kBytes)).status,
            MoveStatus::memory_fault);
  EXPECT_EQ(move(childs(0, kBytes), Block{MemoryRef{kHere, kPrivateRegion, 4096}, kBytes}).status,
            MoveStatus::memory_fault);
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::copier) << "as if nothing had been";
  end_child();
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).status, MoveStatus::owner_lost);
}

TEST_F(Copiers, AnotherProcessThanMeantIsNotTouched) {
  start_copier();
  fabric::LenderQueue asking(copy_queue(), ::getpid(), 8s);
  ASSERT_TRUE(asking.usable());
  CopyJob job;
  job.kind = static_cast<std::uint32_t>(CopyKind::pull);
  job.other_pid = child_;
  job.own_address = address_of(memory_.data());
  job.other_address = address_of(memory_.data());
  job.bytes = 4096;
  job.probe_address = address_of(&probe_);
  job.probe_value = probe_ + 1;  // as another process with that number would have
  asking.give(job, {});
  job.probe_value = probe_;
  job.own_address += 8192;
  asking.give(job, {});
  asking.ring();
  std::vector<fabric::LenderQueue::Finished> finished;
  std::vector<fabric::Chunk> returned;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (finished.size() < 2 && std::chrono::steady_clock::now() < deadline) {
    asking.wait(1ms);
    (void)asking.collect(finished, returned);
    for (; !returned.empty(); returned.pop_back()) asking.give(job, {});  // taken back from a copier that was slow
  }
  ASSERT_EQ(finished.size(), 2U);
  EXPECT_EQ(finished[0].result, CopyResult::unreachable);
  EXPECT_EQ(finished[1].result, CopyResult::copied);
  EXPECT_TRUE(std::all_of(memory_.begin(), memory_.begin() + 8192, [](std::byte b) { return b == std::byte{0}; }));
  expect_bytes(memory_, 8192, 0, 4096);
}

TEST_F(TestsTaker, WhoCannotBeReachedIsNotTriedAgain) {
  pretend_copier(static_cast<pid_t>(::syscall(SYS_gettid)));
  Ended ended;
  fabric_.move(childs(0, 100'000), mine(0, 100'000), nullptr, ended);
  (void)fabric_.progress();
  CopyTaker taker(copy_queue());
  CopyJob job;
  std::uint32_t number = 0;
  ASSERT_TRUE(taker.take(job, number));
  taker.finish(number, CopyResult::unreachable);
  progress_until(ended);
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.reach(), Reach::relay);
  expect_bytes(memory_, 0, 0, 100'000);
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::relay);
  EXPECT_FALSE(taker.take(job, number));
}

TEST_F(TestsTaker, ATakerThatStopsKeepsOnlyWhatItHolds) {
  pretend_copier(static_cast<pid_t>(::syscall(SYS_gettid)));
  Ended held;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, held);
  (void)fabric_.progress();
  CopyTaker taker(copy_queue());
  CopyJob job;
  std::uint32_t number = 0;
  ASSERT_TRUE(taker.take(job, number));
  Ended other;
  fabric_.move(childs(0, kBytes / 2), mine_too(0, kBytes / 2), nullptr, other);
  progress_until(other);
  ASSERT_TRUE(other.ended()) << "others wait for a copier that has stopped";
  const auto a_while = std::chrono::steady_clock::now() + 250ms;
  while (std::chrono::steady_clock::now() < a_while) (void)fabric_.progress();
  EXPECT_FALSE(held.ended()) << "its memory is still being written";
  CopyJob none;
  std::uint32_t no_number = 0;
  EXPECT_FALSE(taker.take(none, no_number)) << "what was taken back is still there to be taken";
  const std::span<std::byte> to(reinterpret_cast<std::byte*>(job.own_address), job.bytes);
  ASSERT_EQ(read_cross_memory(job.other_pid, job.other_address, to), 0);
  taker.finish(number, CopyResult::copied);
  progress_until(held);
  ASSERT_TRUE(held.ended());
  EXPECT_EQ(held.status(), MoveStatus::ok);
  EXPECT_EQ(held.reach(), Reach::relay) << "most of it was relayed";
  expect_bytes(memory_, 0, 0, kBytes);
  // And it may help again.
  pretend_copier(0);
  start_copier();
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).status, MoveStatus::ok);
}

TEST_F(TestsTaker, ACancelledMoveHoldsCompletionsUntilTheTakerIsDone) {
  pretend_copier(static_cast<pid_t>(::syscall(SYS_gettid)));
  ASSERT_TRUE(fabric_.slots().open(kHere, SlotIndex{1}));
  ASSERT_TRUE(fabric_.slots().open(kElsewhere, SlotIndex{1}));
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  CopyTaker taker(copy_queue());
  CopyJob job;
  std::uint32_t number = 0;
  ASSERT_TRUE(taker.take(job, number));
  fabric_.cancel(ended);
  const auto state_of = [&](WorldRank rank) { return fabric_.rank(rank)->segment().slot(SlotIndex{1}).state.load(); };
  fabric_.complete(kHere, SlotIndex{1}, {});
  fabric_.complete(kElsewhere, SlotIndex{1}, {});
  for (int i = 0; i < 20; ++i) (void)fabric_.progress();
  EXPECT_NE(state_of(kHere), static_cast<std::uint32_t>(SlotState::done)) << "a late copy would land in freed memory";
  EXPECT_EQ(state_of(kElsewhere), static_cast<std::uint32_t>(SlotState::done)) << "nothing is written there";
  taker.finish(number, CopyResult::copied);
  (void)fabric_.progress();
  EXPECT_EQ(state_of(kHere), static_cast<std::uint32_t>(SlotState::done));
  EXPECT_FALSE(ended.ended());
  EXPECT_EQ(fabric_.moves_in_flight(), 0U);
}

TEST_F(SlowTaker, AThreadThatDiesWithAJobIsNoticed) {
  std::atomic<pid_t> tid{0};
  std::atomic<bool> go{false};
  std::thread dying([&] {
    tid = static_cast<pid_t>(::syscall(SYS_gettid));
    while (!go) std::this_thread::yield();
    CopyTaker taker(copy_queue());
    CopyJob job;
    std::uint32_t number = 0;
    while (!taker.take(job, number)) std::this_thread::yield();
    copy_queue().copier_has.store(number + 1);
  });
  while (tid == 0) std::this_thread::yield();
  pretend_copier(tid);
  go = true;
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  progress_until(ended);
  dying.join();
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  EXPECT_EQ(ended.reach(), Reach::relay);
  expect_bytes(memory_, 0, 0, kBytes);
}

TEST_F(TestsTaker, NonsenseOnTheBoardHarmsNobodyElse) {
  pretend_copier(static_cast<pid_t>(::syscall(SYS_gettid)));
  std::mt19937 random(3);
  for (int round = 0; round < 10; ++round) {
    Ended ended;
    Ended others;
    fabric_.move(childs(0, kBytes / 4), mine(0, kBytes / 4), nullptr, ended);
    fabric_.move(mine(0, 1000), childs(0, 1000), nullptr, others);  // small: never the copier's
    (void)fabric_.progress();
    copy_queue().taken.store(static_cast<std::uint32_t>(random()));
    copy_queue().events.store(static_cast<std::uint32_t>(random()));
    for (auto& result : copy_queue().results) result.store(static_cast<std::uint32_t>(random() % 7));
    progress_until(ended);
    EXPECT_TRUE(ended.ended()) << "a move hangs on what a rank wrote";
    progress_until(others);
    EXPECT_TRUE(others.ended());
    EXPECT_EQ(others.status(), MoveStatus::ok);
  }
  EXPECT_EQ(fabric_.moves_in_flight(), 0U);
}

TEST_F(TestsTaker, ARankThatIsDroppedTakesItsMovesAlong) {
  pretend_copier(static_cast<pid_t>(::syscall(SYS_gettid)));
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  fabric_.drop_rank(kHere);
  progress_until(ended);
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.status(), MoveStatus::owner_lost);
}

TEST_F(TestsTaker, StoppedCopierLeavesItsWorkToTheServiceProcess) {
  start_copier();
  ASSERT_EQ(move(childs(0, kBytes), mine(0, kBytes)).status, MoveStatus::ok);
  copier_.stop();
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::relay);
}

TEST_F(Copiers, AnIdleCopierTakesNoTime) {
  start_copier();
  ASSERT_EQ(move(childs(0, kBytes), mine(0, kBytes)).status, MoveStatus::ok);
  std::int64_t before = 0;
  std::int64_t after = -1;
  for (int tries = 0; tries < 20 && after != before; ++tries) {  // on a busy machine it comes to rest late
    before = copier_.cpu_ns();
    std::this_thread::sleep_for(300ms);
    after = copier_.cpu_ns();
  }
  EXPECT_GT(before, 0);
  EXPECT_EQ(after, before);
}

// It makes huge pages: what is to be copied meanwhile is not kept waiting.
TEST_F(Copiers, ACopierThatIsAwayIsGivenNothing) {
  start_copier();
  ASSERT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::copier);
  const std::uint32_t given = copy_queue().given.load();
  copy_queue().copier_away.store(1);
  EXPECT_EQ(move(childs(2, kBytes - 2), mine(0, kBytes - 2)).reach, Reach::relay);
  expect_bytes(memory_, 0, 2, kBytes - 2);
  EXPECT_EQ(copy_queue().given.load(), given);
  copy_queue().copier_away.store(0);
  EXPECT_EQ(move(childs(1, kBytes - 1), mine(0, kBytes - 1)).reach, Reach::copier);
  expect_bytes(memory_, 0, 1, kBytes - 1);
  EXPECT_NE(copy_queue().given.load(), given);
}

TEST_F(Copiers, WhatIsQueuedWhenItGoesAwayIsCopiedWithoutIt) {
  start_copier();
  ASSERT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::copier);
  const std::uint32_t given = copy_queue().given.load();
  Ended ended;
  fabric_.move(childs(3, kBytes - 3), mine(0, kBytes - 3), nullptr, ended);
  copy_queue().copier_away.store(1);
  progress_until(ended);
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.reach(), Reach::relay);
  EXPECT_EQ(copy_queue().given.load(), given);
  expect_bytes(memory_, 0, 3, kBytes - 3);
  copy_queue().copier_away.store(0);
}

// Moves go on all the time, and from buffers on the way there.
TEST_F(Copiers, MovesArriveWhileItMakesHugePages) {
  start_copier();
  pages_.allow(2U << 20, 10min);  // where the kernel has none, it has tried to
  const std::vector<std::vector<std::byte>> buffers(6, std::vector<std::byte>(16U << 20, std::byte{5}));
  for (const std::vector<std::byte>& sent : buffers) {
    bool handed_over = false;
    for (std::uint32_t use = 0; use < client::HugePages::kLeastUses && !handed_over; ++use) {
      handed_over = pages_.note_source(address_of(sent.data()), sent.size());
    }
    ASSERT_TRUE(handed_over);
    ring_copier(copy_queue());
    std::uint64_t shift = 0;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    do {
      shift = (shift + 1) % 64;
      ASSERT_EQ(move(childs(shift, kBytes - shift), mine(0, kBytes - shift)).status, MoveStatus::ok);
      expect_bytes(memory_, 0, shift, kBytes - shift);
    } while (pages_.anything() && std::chrono::steady_clock::now() < deadline);
    EXPECT_FALSE(pages_.anything());
    EXPECT_TRUE(std::ranges::all_of(sent, [](std::byte byte) { return byte == std::byte{5}; }));
  }
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (copy_queue().copier_away.load() != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::copier);
}

}  // namespace
}  // namespace outrigger::copier_test
