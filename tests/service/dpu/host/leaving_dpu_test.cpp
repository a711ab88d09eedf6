// Ranks detach from a lost DPU: the host's keeper waits for some of them, with a time limit.
#include "service/dpu/host/leaving_dpu.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "protocol/shared/segment.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using Clock = LeavingDpu::Clock;

constexpr std::uint32_t kRanksLeaving = 2;
constexpr milliseconds kRest{2000};

class LeavingDpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t rank = 0; rank < kRanksLeaving; ++rank) {
      std::array<int, 2> fds{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
      NewRank new_rank;
      new_rank.socket = ControlSocket(UniqueFd(fds[0]));
      new_rank.hello.world_rank = new_rank.hello.local_rank = rank;
      new_rank.hello.world_size = new_rank.hello.local_size = kRanksLeaving;
      ranks_.admit(std::move(new_rank));
      theirs_[rank] = ControlSocket(UniqueFd(fds[1]));
    }
    ASSERT_TRUE(ranks_.make_segments());
    leaving_.emplace(ranks_, "the DPU is lost", kRest, began_);
  }
  void call_ranks() {
    ASSERT_TRUE(leaving_->is_time_to_call(began_ + kRest));
    for (LocalRank& rank : ranks_) leaving_->call(rank, doorbell_.get());
  }

  Events events_;
  LocalRanks ranks_{events_, kRanksLeaving, kRanksLeaving};
  std::array<ControlSocket, kRanksLeaving> theirs_;
  UniqueFd doorbell_{::eventfd(0, EFD_CLOEXEC)};
  Clock::time_point began_ = Clock::now();
  std::optional<LeavingDpu> leaving_;
};

TEST_F(LeavingDpuTest, RanksStayUntilOperationsAreAtRest) {
  EXPECT_FALSE(leaving_->is_time_to_call(began_ + kRest / 2));
  EXPECT_FALSE(leaving_->over()) << "nobody has been called";
  EXPECT_EQ(leaving_->next_look(), began_ + kRest);
  EXPECT_TRUE(leaving_->is_time_to_call(began_ + kRest));
  EXPECT_FALSE(leaving_->is_time_to_call(began_ + kRest)) << "once";
}

TEST_F(LeavingDpuTest, RanksGetSegmentAndDoorbellOfTheHost) {
  call_ranks();
  for (std::uint32_t rank = 0; rank < kRanksLeaving; ++rank) {
    ControlSocket::Received received = theirs_[rank].receive(0);
    ASSERT_TRUE(received.message);
    EXPECT_EQ(received.message->kind(), ControlKind::leave_dpu);
    EXPECT_EQ(received.message->fds().size(), 2U);  // segment, doorbell
    const SegmentHeader& header = SegmentView(ranks_[rank].segment.base()).header();
    EXPECT_NE(header.dpu_calls.load() & kDpuLost, 0U);
  }
}

TEST_F(LeavingDpuTest, IsOverWhenAllHaveLeft) {
  call_ranks();
  ASSERT_TRUE(leaving_->has_left(ranks_[0]));
  EXPECT_FALSE(leaving_->over());
  ASSERT_TRUE(leaving_->has_left(ranks_[1]));
  EXPECT_TRUE(leaving_->over());
}

TEST_F(LeavingDpuTest, SecondReportIsAnError) {
  call_ranks();
  ASSERT_TRUE(leaving_->has_left(ranks_[0]));
  EXPECT_FALSE(leaving_->has_left(ranks_[0]));
}

TEST_F(LeavingDpuTest, DoesNotWaitForARankThatHasLeft) {
  call_ranks();
  ASSERT_TRUE(leaving_->has_left(ranks_[0]));
  ranks_.leave(1);
  EXPECT_TRUE(leaving_->over());
}

TEST_F(LeavingDpuTest, RankThatStaysIsNamed) {
  call_ranks();
  ASSERT_TRUE(leaving_->has_left(ranks_[0]));
  EXPECT_FALSE(leaving_->failure(began_ + kRest));
  const std::optional<std::string> failure = leaving_->failure(began_ + kRest + LeavingDpu::kLimit);
  ASSERT_TRUE(failure);
  EXPECT_EQ(*failure, "the DPU is lost; rank 1 did not detach from it within 60 s");
}

}  // namespace
}  // namespace outrigger::service
