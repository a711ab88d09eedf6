// Where the service process has no core of its own: ranks that wait make the copies, without a copier and without
// waking it in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "client/copies/wait_helper.hpp"
#include "copiers_fixture.hpp"

namespace outrigger::waiting_ranks_test {
namespace {

using namespace std::chrono_literals;
using fabric::MoveStatus;
using testing::address_of;
using testing::byte_at;
using testing::Ended;
using testing::kBytes;
using testing::kElsewhere;
using testing::kHere;

class RanksAlone : public testing::Copiers {
 protected:
  explicit RanksAlone(std::chrono::milliseconds patience = std::chrono::seconds(60))
      : Copiers(patience, copy::CoreShare::none) {
    helper_.allow(copy_queue(), pages_, copy::Lenders::waiting_ranks);
  }
  ~RanksAlone() override { helper_.stop(); }

  // Acts as a service process until it may sleep.
  void progress_while_there_is_something() {
    do {
      (void)fabric_.progress();
    } while (!fabric_.arm());
  }
  void help_to_the_end() {
    ASSERT_EQ(helper_.enter(), copy::Waits::at_once);
    while (helper_.help()) {
    }
    helper_.leave(copy::Waits::at_once);
  }

  client::WaitHelper helper_;
};

class HastyRanksAlone : public RanksAlone {
 protected:
  HastyRanksAlone() : RanksAlone(20ms) {}
};

TEST_F(RanksAlone, CopyWhatTheyFindAndTheServiceProcessNeedNotLook) {
  Ended ended;
  fabric_.move(childs(3, kBytes - 10), mine(7, kBytes - 10), nullptr, ended);
  EXPECT_FALSE(fabric_.arm());
  progress_while_there_is_something();
  EXPECT_FALSE(ended.ended());
  EXPECT_EQ(fabric_.moves_in_flight(), 1U);
  ASSERT_TRUE(fabric_.sleep_limit({}).has_value());
  EXPECT_GT(*fabric_.sleep_limit({}), 1s);
  help_to_the_end();
  EXPECT_FALSE(fabric_.arm());
  progress_while_there_is_something();
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  EXPECT_EQ(ended.reach(), Reach::copier);
  expect_bytes(memory_, 7, 3, kBytes - 10);
  EXPECT_EQ(helper_.bytes(), kBytes - 10);
  EXPECT_FALSE(fabric_.sleep_limit({}).has_value());
  EXPECT_TRUE(fabric_.arm());
}

// Whenever they wait, not only at once after a post.
TEST_F(RanksAlone, HelpAfterTheyHaveComputed) {
  helper_.posted(1);
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(helper_.enter(), copy::Waits::at_once);
  helper_.leave(copy::Waits::at_once);
}

// More than a job queue has room for.
TEST_F(RanksAlone, TakeOneBoardAfterTheOther) {
  constexpr std::uint64_t kBlock = 32 << 10;
  std::vector<Ended> ended(kBytes / kBlock);
  for (std::uint64_t i = 0; i < ended.size(); ++i) {
    fabric_.move(childs(i * kBlock, kBlock), mine(i * kBlock, kBlock), nullptr, ended[i]);
  }
  ASSERT_GT(ended.size(), kCopyJobs);
  for (std::size_t turns = 0; turns <= ended.size() / kCopyJobs; ++turns) {
    progress_while_there_is_something();
    help_to_the_end();
  }
  progress_while_there_is_something();
  EXPECT_TRUE(std::ranges::all_of(ended, [](const Ended& each) { return each.ended(); }));
  expect_bytes(memory_, 0, 0, kBytes);
  EXPECT_EQ(helper_.bytes(), kBytes);
}

TEST_F(HastyRanksAlone, AreNotWaitedForWhenTheyCompute) {
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  progress_while_there_is_something();
  EXPECT_FALSE(ended.ended());
  std::this_thread::sleep_for(*fabric_.sleep_limit({}));
  EXPECT_FALSE(fabric_.arm());
  progress_until(ended);
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  EXPECT_EQ(ended.reach(), Reach::relay);
  expect_bytes(memory_, 0, 0, kBytes);
  EXPECT_EQ(helper_.bytes(), 0U);
  EXPECT_FALSE(helper_.help()) << "it has been taken back";
}

// A rank that stands still with a piece in its hands keeps that one alone.
TEST_F(HastyRanksAlone, KeepWhatTheyHaveBegun) {
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  progress_while_there_is_something();
  CopyTaker taker(copy_queue());
  CopyJob job;
  std::uint32_t number = 0;
  ASSERT_TRUE(taker.take_asked(job, number));
  const auto a_while = std::chrono::steady_clock::now() + 100ms;
  while (std::chrono::steady_clock::now() < a_while) (void)fabric_.progress();
  EXPECT_FALSE(ended.ended());
  EXPECT_TRUE(fabric_.arm()) << "it would poll for a rank that does not get on";
  EXPECT_EQ(client::CopyJobs().carry_out(job), CopyResult::copied);
  taker.finish(number, CopyResult::copied);
  EXPECT_FALSE(fabric_.arm());
  progress_until(ended);
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  expect_bytes(memory_, 0, 0, kBytes);
}

// By a filter of system calls, or because the program ends.
TEST_F(RanksAlone, WhoDoNotCopyAreNotAsked) {
  helper_.stop();
  EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).reach, Reach::relay);
  expect_bytes(memory_, 0, 0, kBytes);
}

TEST_F(RanksAlone, AreNotAskedForLittle) {
  EXPECT_EQ(move(childs(0, 1000), mine(0, 1000)).reach, Reach::relay);
  expect_bytes(memory_, 0, 0, 1000);
}

TEST_F(RanksAlone, MoveIsCancelled) {
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  progress_while_there_is_something();
  fabric_.cancel(ended);
  EXPECT_FALSE(ended.ended());
  EXPECT_EQ(fabric_.moves_in_flight(), 0U);
  EXPECT_FALSE(helper_.help());
  progress_while_there_is_something();
}

TEST_F(RanksAlone, AFaultIsToldAndTheRestForgotten) {
  Ended ended;
  const Block nowhere{MemoryRef{kElsewhere, kPrivateRegion, 4096}, kBytes};
  fabric_.move(nowhere, mine(0, kBytes), nullptr, ended);
  progress_while_there_is_something();
  help_to_the_end();
  progress_while_there_is_something();
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.status(), MoveStatus::memory_fault);
}

// Nothing else moves it: the helper is the one that makes huge pages then.
TEST_F(RanksAlone, DoTheCopiersOtherWork) {
  pages_.allow(2 << 20);
  bool due = false;
  for (std::uint32_t use = 0; use < client::HugePages::kLeastUses; ++use) {
    due = pages_.note_source(address_of(memory_.data()), kBytes);
  }
  ASSERT_TRUE(due);
  EXPECT_TRUE(helper_.wanted());
  help_to_the_end();
  EXPECT_FALSE(pages_.anything());
  EXPECT_TRUE(std::ranges::all_of(memory_, [](std::byte byte) { return byte == std::byte{}; }));
}

// Service process and rank run at the same time, many times. No job is lost and no thread sleeps forever.
TEST_F(RanksAlone, NothingIsForgotten) {
  std::atomic<bool> over{false};
  std::thread rank([&] {
    ASSERT_EQ(helper_.enter(), copy::Waits::at_once);
    while (!over) {
      if (!helper_.help()) std::this_thread::yield();
    }
    helper_.leave(copy::Waits::at_once);
  });
  for (std::uint64_t round = 0; round < 300; ++round) {
    const std::uint64_t bytes = (16U << 10) + round * 4096;
    Ended ended;
    fabric_.move(childs(round, bytes), mine(0, bytes), nullptr, ended);
    progress_until(ended);
    ASSERT_TRUE(ended.ended()) << round;
    ASSERT_EQ(memory_[bytes - 1], byte_at(round + bytes - 1)) << round;
  }
  over = true;
  rank.join();
}

}  // namespace
}  // namespace outrigger::waiting_ranks_test
