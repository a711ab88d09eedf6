// A DPU is lost, or nobody can take a place there any more: the ranks of its host leave it, each by a thread of its own
// whatever its program is at, so that nothing reaches their memory from there any more; then others may take the places
// of the service processes there.
//
//   rest        what the DPU has under way ends, or comes to rest: ranks that have left name private memory, and
//               a service process there that still ran would refuse that
//   each rank   leave_dpu, and kDpuLost in its segment  ->  shuts its network  ->  left_dpu
//   all have    over()
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
  static constexpr std::chrono::seconds kLimit{60};  // for ranks, which may be stopped

  // `what` has become of the DPU, for people. `ranks` must outlive this.
  LeavingDpu(LocalRanks& ranks, std::string what, std::chrono::milliseconds rest, Clock::time_point now);

  // Once: the ranks are to be called.
  [[nodiscard]] bool is_time_to_call(Clock::time_point now);
  // A rank that is present. Its doorbell: of the service process that takes the place of the one that serves it.
  void call(LocalRank& rank, int doorbell);
  // Error: it was not called, or says so twice.
  [[nodiscard]] Status has_left(const LocalRank& rank);
  [[nodiscard]] bool over();
  // Why it will not be.
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
