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

struct GroupCourse {
  bool steered = false;        // some call of it goes by the course
  Course own;                  // what this service process would have of this group, beside what it would of all
  std::optional<Course> told;  // what the leader has heard of that

  // The rest at the leader.
  std::map<SpId, Course> wishes;
  CoursePlan plan;           // in force
  std::uint64_t number = 0;  // of the last change
  std::optional<CourseChange> changing;
  std::uint32_t failures = 0;  // changes in a row that were not possible
  std::uint32_t pauses = 0;    // retries to leave out
};

}  // namespace outrigger::engine
