// A course and times of a trial with something in every field, for tests of what travels.
#pragma once

#include "protocol/course.hpp"

namespace outrigger {

inline Course some_course() {
  Course course{Suspended{3, 4},
                Trial{5, CallKey::of(Collective::ibcast, true, 100), Way::native(), Way::by(Algorithm::flat), 6},
                {}};
  course.choose(Choice{CallKey::of(Collective::ialltoall, false, 4096), Way::by(Algorithm::scatter_dest), false});
  course.choose(Choice{CallKey::of(Collective::iallgatherv, false, std::nullopt), Way::native(), true});
  return course;
}

inline TrialTimes some_times() {
  TrialTimes times;
  for (std::size_t i = 0; i < times.lost_ns.size(); ++i) times.lost_ns[i] = 0x1000 + i;
  times.passed_ns = 0x0102030405060708;
  return times;
}

}  // namespace outrigger
