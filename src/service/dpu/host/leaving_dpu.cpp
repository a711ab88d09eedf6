#include "service/dpu/host/leaving_dpu.hpp"

#include <array>
#include <utility>

#include "base/futex.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::service {

LeavingDpu::LeavingDpu(LocalRanks& ranks, std::string what, std::chrono::milliseconds rest, Clock::time_point now)
    : ranks_(ranks), what_(std::move(what)), at_rest_(now + rest), limit_(now + rest + kLimit) {}

bool LeavingDpu::is_time_to_call(Clock::time_point now) {
  return now >= at_rest_ && !std::exchange(called_, true);
}

// A rank that takes no messages does not detach either: the time limit ends the wait.
void LeavingDpu::call(LocalRank& rank, int doorbell) {
  still_there_.insert(rank.hello.world_rank);
  const std::array<int, 2> fds{rank.segment_fd.get(), doorbell};
  (void)rank.tell(ControlKind::leave_dpu, RankBody{rank.hello.world_rank, 0}, fds);
  std::atomic<std::uint32_t>& calls = SegmentView(rank.segment.base()).header().dpu_calls;
  calls.fetch_or(kDpuLost, std::memory_order_seq_cst);
  futex_wake_all(calls);
}

Status LeavingDpu::has_left(const LocalRank& rank) {
  if (still_there_.erase(rank.hello.world_rank) != 0) return Done{};
  return Error{"it detached from a DPU without being asked"};
}

void LeavingDpu::forget_those_that_are_gone() {
  std::erase_if(still_there_, [this](std::uint32_t rank) { return !ranks_.find(rank); });
}

bool LeavingDpu::over() {
  forget_those_that_are_gone();
  return called_ && still_there_.empty();
}

std::optional<std::string> LeavingDpu::failure(Clock::time_point now) {
  forget_those_that_are_gone();
  if (still_there_.empty() || now < limit_) return std::nullopt;
  return what_ + "; rank " + std::to_string(*still_there_.begin()) + " did not detach from it within " +
         std::to_string(kLimit.count()) + " s";
}

LeavingDpu::Clock::time_point LeavingDpu::next_look() const {
  return called_ ? limit_ : at_rest_;
}

}  // namespace outrigger::service
