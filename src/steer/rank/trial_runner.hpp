// One communicator's trials (steer/plan/decision.hpp) on a rank: it takes part in them, and the first rank asks for
// them.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/options/selection.hpp"
#include "steer/rank/decision_file.hpp"
#include "steer/rank/dispatch_port.hpp"
#include "steer/rank/plan_cursor.hpp"
#include "steer/rank/trial_clock.hpp"
#include "steer/rank/trial_cost.hpp"
#include "steer/rank/trial_pace.hpp"

namespace outrigger::steer {

class TrialRunner {
 public:
  // The next call. Sends the times of a trial that is over, and ends one that costs too much.
  [[nodiscard]] Step next(const DispatchPort& port, const DispatchPlan& plan, CallKey key);
  // On the first rank, for each such call: asks for a trial when it is worth the cost. `without_window`: the trial.
  void maybe_ask(const DispatchPort& port, const TrialRequest& without_window, const GroupShape& shape,
                 DecisionFile& decisions, bool early);
  // The same, of calls that have not been shown one by one.
  void pass(CallKey key, std::uint64_t calls) { pace_of(key).pass(calls); }
  // So many calls from now on need not be shown.
  [[nodiscard]] std::uint64_t quiet_calls(CallKey key);
  // The program does something else with the communicator for a while: the measured times are of no use.
  void interrupt() { clock_.spoil(); }

 private:
  struct Pace {
    CallKey key;
    TrialPace pace;
  };
  static constexpr std::uint32_t kBeforeRecall = 4;  // calls; communicators with fewer do not look into the file

  // `early`: of a new one.
  [[nodiscard]] TrialPace& pace_of(CallKey key, bool early = false);
  void watch_cost(const DispatchPort& port, const Step& step, CallKey key);

  PlanCursor cursor_;
  TrialClock clock_;
  std::vector<Pace> paces_;
  bool asked_ = false;  // for the trial that is under way, or to come
  TrialCost cost_;
};

}  // namespace outrigger::steer
