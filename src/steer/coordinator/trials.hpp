// Trials of a communicator's calls (steer/plan/decision.hpp): which methods are tried, and what is decided by the times
// that ranks have measured. Agreement brings both to all ranks.
//
//     group's first rank     its service process, the leader         others
//       asks for a trial ------>  a change: the trial begins  ----------> (plan_agreement.hpp)
//       ... calls, by two methods in turn ...
//     ranks ------> times        sums  <------- measured {times} --------  sums <------ ranks
//                                a change: the better method is cached ---->
//
// Where the first rank sees that the other method takes many times as long, it says so, and the trial ends for the
// usual method, which is another change.
//
// A message from each service process a trial.
#pragma once

#include <cstdint>
#include <optional>

#include "steer/coordinator/plan_agreement.hpp"

namespace outrigger::steer {

class Trials {
 public:
  Trials(Context& context, Communicators& communicators, Agreement& agreement)
      : context_(context), communicators_(communicators), agreement_(agreement) {}

  // As Coordinator says.
  void ask(WorldRank rank, const GroupId& id, const TrialRequest& request);
  void recall(WorldRank rank, const GroupId& id, const CachedDecision& decision);
  void give_up(WorldRank rank, const GroupId& id, std::uint16_t trial);
  void measured(WorldRank rank, const GroupId& id, std::uint16_t trial, const TrialTimes& times);

  void on_measured(SpId from, const OperationId& about, const Measured& measured);

 private:
  // nullptr unless this service process leads it and the rank is its first.
  [[nodiscard]] Communicator* led_for(WorldRank rank, const GroupId& id);
  void add(Communicator& communicator, SpId from, const Measured& measured);
  void conclude(Communicator& communicator, std::optional<Method> better);

  Context& context_;
  Communicators& communicators_;
  Agreement& agreement_;
};

}  // namespace outrigger::steer
