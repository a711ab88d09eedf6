#include "service/loop/steering_host.hpp"

#include "base/futex.hpp"

namespace outrigger::service {

void SteeringHost::learn(WorldRank rank, const GroupId& group, PlanNumber number) {
  if (number.valid()) numbers_[rank].try_emplace(group, number);
}

void SteeringHost::forget(WorldRank rank, const GroupId& group) {
  const auto found = numbers_.find(rank);
  if (found != numbers_.end()) found->second.erase(group);
}

steer::PlanEntry* SteeringHost::find(WorldRank rank, const GroupId& group) const {
  const auto of_rank = numbers_.find(rank);
  const fabric::RankMemory* memory = node_.rank(rank);
  if (of_rank == numbers_.end() || memory == nullptr) return nullptr;
  const auto number = of_rank->second.find(group);
  return number == of_rank->second.end() ? nullptr : &steer::plan_entry(memory->segment(), number->second);
}

std::optional<std::uint64_t> SteeringHost::hold_calls(WorldRank rank, const GroupId& group) {
  steer::PlanEntry* entry = find(rank, group);
  if (entry == nullptr) return std::nullopt;
  entry->held.store(1, std::memory_order_seq_cst);
  return entry->calls.load(std::memory_order_seq_cst);
}

void SteeringHost::resume_calls(WorldRank rank, const GroupId& group, const steer::PlanChange* change) {
  steer::PlanEntry* entry = find(rank, group);
  if (entry == nullptr || entry->held.load(std::memory_order_relaxed) == 0) return;
  if (change != nullptr) entry->change(*change);
  entry->held.store(0, std::memory_order_seq_cst);
  futex_wake_all(entry->held);
}

std::optional<steer::TrialTimes> SteeringHost::times(WorldRank rank, const GroupId& group) const {
  const steer::PlanEntry* entry = find(rank, group);
  return entry == nullptr ? std::nullopt : std::optional(entry->times());
}

}  // namespace outrigger::service
