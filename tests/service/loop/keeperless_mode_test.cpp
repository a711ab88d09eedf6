// A service process watches ranks by itself; the ranks are children of this process.
#include "service/loop/keeperless_mode.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <vector>

#include "base/shared_memory.hpp"
#include "protocol/shared/life_lock.hpp"

namespace outrigger::service {
namespace {

using Clock = fabric::Port::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

class KeeperlessModeTest : public ::testing::Test {
 protected:
  ~KeeperlessModeTest() override {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  void add_rank(std::uint32_t rank, bool attached) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      while (true) ::pause();
    }
    pids_.push_back(pid);
    Result<Mapping> memory = Mapping::anonymous(SegmentView::segment_bytes());
    ASSERT_TRUE(memory);
    segments_.push_back(std::move(memory).value());
    if (attached) header(rank).rank_base_address.store(4096);
    keeperless_.know(WorldRank{rank}, pid, SegmentView(segments_.back().base()));
  }
  [[nodiscard]] SegmentHeader& header(std::uint32_t rank) { return SegmentView(segments_[rank].base()).header(); }
  [[nodiscard]] std::vector<WorldRank> gone_after(milliseconds time) {
    now_ += time;
    keeperless_.look_after(now_, {});
    return keeperless_.take_gone();
  }

  KeeperlessMode keeperless_;
  std::vector<pid_t> pids_;
  std::deque<Mapping> segments_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(KeeperlessModeTest, WatchesProcesses) {
  for (const std::uint32_t rank : {0U, 1U}) add_rank(rank, true);
  ASSERT_TRUE(keeperless_.begin(now_));
  EXPECT_EQ(keeperless_.descriptors().size(), 2U);
  EXPECT_TRUE(gone_after(seconds(100)).empty());
  EXPECT_EQ(keeperless_.sleep_limit(now_), std::nullopt);
  ::kill(pids_[1], SIGKILL);
  pollfd end{keeperless_.descriptors().back(), POLLIN, 0};
  constexpr int kLongMs = 20'000;
  ASSERT_EQ(::poll(&end, 1, kLongMs), 1);
  EXPECT_EQ(gone_after(seconds(1)), std::vector{WorldRank{1}});
  EXPECT_FALSE(keeperless_.empty());
}

TEST_F(KeeperlessModeTest, NoticesThatARankLeavesWhileItsProcessRuns) {
  for (const std::uint32_t rank : {0U, 1U}) add_rank(rank, true);
  ASSERT_TRUE(keeperless_.begin(now_));
  EXPECT_TRUE(gone_after(milliseconds(0)).empty());
  header(0).rank_base_address.store(0);
  EXPECT_EQ(gone_after(milliseconds(0)), std::vector{WorldRank{0}});
  header(1).rank_base_address.store(0);
  EXPECT_EQ(gone_after(milliseconds(0)), std::vector{WorldRank{1}});
  EXPECT_TRUE(keeperless_.empty());
}

TEST_F(KeeperlessModeTest, WaitsForRanksThatMayHaveBeenWelcomed) {
  for (const std::uint32_t rank : {0U, 1U}) add_rank(rank, false);
  ASSERT_TRUE(keeperless_.begin(now_));
  EXPECT_TRUE(gone_after(KeeperlessMode::kForWelcome - seconds(1)).empty());
  EXPECT_NE(keeperless_.sleep_limit(now_), std::nullopt);
  header(1).rank_base_address.store(4096);
  EXPECT_EQ(gone_after(seconds(2)), std::vector{WorldRank{0}});
  EXPECT_TRUE(gone_after(seconds(100)).empty());
}

TEST_F(KeeperlessModeTest, CannotWatchUnknownRanks) {
  EXPECT_FALSE(keeperless_.begin(now_));
  add_rank(0, true);
  keeperless_.know(WorldRank{1}, 0, SegmentView(segments_.back().base()));
  EXPECT_FALSE(keeperless_.begin(now_));
}

TEST(LifeLock, ExistsAsLongAsItsProcess) {
  const Result<UniqueFd> segment = create_sealed_memory("outrigger-test", 4096, Backing::on_touch);
  ASSERT_TRUE(segment);
  const int fd = segment.value().get();
  EXPECT_FALSE(has_life_lock(fd));
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const char byte = take_life_lock(fd) ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_TRUE(has_life_lock(fd));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_FALSE(has_life_lock(fd));
  for (const int end : ready) ::close(end);
}

}  // namespace
}  // namespace outrigger::service
