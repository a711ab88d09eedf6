// Moves the ranks of a host off a DPU that is lost or has no standby left. A thread of each rank detaches from the DPU,
// so that nothing on the DPU can reach its memory. Then service processes on the host take over.
//
//   rest        wait until the operations of the DPU have ended: a service process there that still ran would
//               refuse the private memory that detached ranks name
//   each rank   leave_dpu, and kDpuLost in its segment  ->  closes its network  ->  left_dpu
//   all done    over()
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/result.hpp"
#include "service/keeper/ranks/local_ranks.hpp"

namespace outrigger::service {

class LeavingDpu {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kLimit{60};  // for ranks, which may be stopped by a signal

  // `what` says how the DPU was lost, for people. `ranks` must outlive this.
  LeavingDpu(LocalRanks& ranks, std::string what, std::chrono::milliseconds rest, Clock::time_point now);

  // True once: the ranks are to be called.
  [[nodiscard]] bool is_time_to_call(Clock::time_point now);
  // Calls a rank that is present. `doorbell`: of the service process that takes over this rank.
  void call(LocalRank& rank, int doorbell);
  // Error: the rank was not called, or reports twice.
  [[nodiscard]] Status has_left(const LocalRank& rank);
  [[nodiscard]] bool over();
  // Why the ranks cannot detach in time.
  [[nodiscard]] std::optional<std::string> failure(Clock::time_point now);
  [[nodiscard]] Clock::time_point next_look() const;
  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  void forget_those_that_are_gone();

  LocalRanks& ranks_;
  const std::string what_;
  const Clock::time_point at_rest_;
  const Clock::time_point limit_;
  bool called_ = false;
  std::set<std::uint32_t> still_there_;  // world ranks
};

}  // namespace outrigger::service
