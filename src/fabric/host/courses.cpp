#include "fabric/host/courses.hpp"

#include "base/futex.hpp"

namespace outrigger::fabric {

void Courses::learn(WorldRank rank, const GroupId& group, CourseNumber number) {
  if (number.valid()) numbers_[rank].try_emplace(group, number);
}

void Courses::forget(WorldRank rank, const GroupId& group) {
  const auto found = numbers_.find(rank);
  if (found != numbers_.end()) found->second.erase(group);
}

CourseEntry* Courses::find(WorldRank rank, const GroupId& group) const {
  const auto of_rank = numbers_.find(rank);
  RankMemory* memory = ranks_.find(rank);
  if (of_rank == numbers_.end() || memory == nullptr) return nullptr;
  const auto number = of_rank->second.find(group);
  return number == of_rank->second.end() ? nullptr : &memory->segment().course(number->second);
}

std::optional<std::uint64_t> Courses::hold(WorldRank rank, const GroupId& group) {
  CourseEntry* entry = find(rank, group);
  if (entry == nullptr) return std::nullopt;
  entry->held.store(1, std::memory_order_seq_cst);
  return entry->calls.load(std::memory_order_seq_cst);
}

void Courses::resume(WorldRank rank, const GroupId& group, const CoursePlan* plan) {
  CourseEntry* entry = find(rank, group);
  if (entry == nullptr || entry->held.load(std::memory_order_relaxed) == 0) return;
  if (plan != nullptr) entry->change(*plan);
  entry->held.store(0, std::memory_order_seq_cst);
  futex_wake_all(entry->held);
}

std::optional<TrialTimes> Courses::times(WorldRank rank, const GroupId& group) const {
  const CourseEntry* entry = find(rank, group);
  return entry == nullptr ? std::nullopt : std::optional(entry->times());
}

}  // namespace outrigger::fabric
