// A dispatch plan and times of a trial with something in every field, for tests of what travels.
#pragma once

#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {

inline DispatchPlan some_plan() {
  DispatchPlan plan{
      Suspended{3, 4},
      Trial{5, CallKey::of(Collective::ibcast, true, 100), Method::native(), Method::by(Algorithm::flat), 6},
      {}};
  plan.keep(
      CachedDecision{CallKey::of(Collective::ialltoall, false, 4096), Method::by(Algorithm::scatter_dest), false});
  plan.keep(CachedDecision{CallKey::of(Collective::iallgatherv, false, std::nullopt), Method::native(), true});
  return plan;
}

inline TrialTimes some_times() {
  TrialTimes times;
  for (std::size_t i = 0; i < times.lost_ns.size(); ++i) times.lost_ns[i] = 0x1000 + i;
  times.passed_ns = 0x0102030405060708;
  return times;
}

}  // namespace outrigger::steer
