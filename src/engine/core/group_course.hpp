// What a service process knows of a communicator's course.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "protocol/course.hpp"
#include "protocol/ids.hpp"

namespace outrigger::engine {

// One that is under way, at the leader.
struct CourseChange {
  Course to;
  std::set<SpId> awaited;  // service processes that hold their ranks
  bool possible = true;
  std::uint64_t least = ~std::uint64_t{0};  // calls that some rank has begun
  std::uint64_t most = 0;
};

// What this service process's ranks have measured in a trial.
struct LocalTimes {
  std::uint16_t trial = 0;
  std::set<WorldRank> ranks;  // that have said so
  std::optional<TrialTimes> sum;
};

// Of one kind of call, at the leader.
struct TriedWays {
  std::uint32_t next = 0;     // of the candidates, to be tried
  std::uint32_t natives = 0;  // trials in a row that spoke for the MPI
};

// The trials of a communicator, at the leader.
struct GroupTrials {
  std::uint16_t last_number = 0;
  std::map<CallKey, TriedWays> tried;
  // Of the one that is under way.
  std::uint32_t candidates = 0;  // for its kind of call
  std::set<SpId> awaited;        // service processes whose ranks have not all measured
  std::optional<TrialTimes> sum;
  bool spoiled = false;  // its calls were suspended for a while
};

struct GroupCourse {
  bool steered = false;  // some call of it goes by the course
  bool failing = false;  // some service process of the group wishes that nothing of it be offloaded
  Suspended own;         // what this service process would have of this group, beside what it would of all
  Suspended told;        // what the leader has heard of that
  LocalTimes measured;

  // The rest at the leader.
  std::map<SpId, Suspended> wishes;
  Course wanted;  // what is to be tried, and what has been chosen; it knows of no suspension
  GroupTrials trials;
  CoursePlan plan;           // in force
  std::uint64_t number = 0;  // of the last change
  std::optional<CourseChange> changing;
  std::uint32_t failures = 0;  // changes in a row that were not possible
  std::uint32_t pauses = 0;    // retries to leave out
};

}  // namespace outrigger::engine
