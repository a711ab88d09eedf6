// Communicators' courses in the segments of this node's ranks (protocol/course.hpp).
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "fabric/host/node_ranks.hpp"
#include "protocol/course.hpp"
#include "protocol/ids.hpp"

namespace outrigger::fabric {

class Courses {
 public:
  explicit Courses(NodeRanks& ranks) : ranks_(ranks) {}

  // Where the rank has it; a number that is not valid: nowhere. Asked at each post.
  void learn(WorldRank rank, const GroupId& group, CourseNumber number);
  // The rank uses the entry for something else from now on.
  void forget(WorldRank rank, const GroupId& group);
  void forget_rank(WorldRank rank) { numbers_.erase(rank); }

  // As RankView says.
  [[nodiscard]] std::optional<std::uint64_t> hold(WorldRank rank, const GroupId& group);
  void resume(WorldRank rank, const GroupId& group, const CoursePlan* plan);
  // What the rank has measured in its last trial.
  [[nodiscard]] std::optional<TrialTimes> times(WorldRank rank, const GroupId& group) const;

 private:
  // Null: there is none.
  [[nodiscard]] CourseEntry* find(WorldRank rank, const GroupId& group) const;

  NodeRanks& ranks_;
  std::unordered_map<WorldRank, std::unordered_map<GroupId, CourseNumber>> numbers_;
};

}  // namespace outrigger::fabric
