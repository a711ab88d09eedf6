#include "engine/core/group_table.hpp"

#include <algorithm>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

Group& GroupTable::get(GroupId id) {
  std::unique_ptr<Group>& found = groups_[id];
  if (found != nullptr) return *found;
  found = std::make_unique<Group>(context_, id);
  // Ranks come back one at a time after a restart: some may have freed the group before others are known again.
  if (const auto forgotten = forgotten_.find(id); forgotten != forgotten_.end()) {
    found->all_progress() = forgotten->second;
  }
  return *found;
}

Group* GroupTable::find(GroupId id) const {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : found->second.get();
}

void GroupTable::close_if_over(Group& group, std::uint64_t sequence) {
  const auto found = group.operations().find(sequence);
  if (found == group.operations().end() || !found->second->is_over()) return;
  group.operations().erase(found);
}

void GroupTable::close_if_freed(Group& group) {
  if (!group.operations().empty() || group.all_progress().empty()) return;
  const Membership* membership = group.membership();
  for (const auto& [rank, progress] : group.all_progress()) {
    if (!progress.freed && !context_.is_dropped(rank)) return;
  }
  if (membership != nullptr) {
    for (const GroupRank local : membership->local()) {
      const WorldRank world = membership->world(local);
      if (!group.all_progress().contains(world) && !context_.is_dropped(world)) return;
    }
  }
  const GroupId id = group.id();
  for (auto& [rank, progress] : group.all_progress()) remember(id, rank, std::move(progress));
  groups_.erase(id);
}

void GroupTable::close_all_freed() {
  std::vector<GroupId> ids;
  for (const auto& [id, known] : groups_) ids.push_back(id);
  for (const GroupId id : ids) close_if_freed(*groups_.at(id));
}

void GroupTable::remember(GroupId id, WorldRank rank, Progress&& progress) {
  if (progress.freed) progress.complete_below(~std::uint64_t{0});
  const auto [found, added] = forgotten_.try_emplace(id);
  found->second.insert_or_assign(rank, std::move(progress));
  if (!added) return;
  forgotten_order_.push_back(id);
  if (forgotten_order_.size() <= context_.config.limits.forgotten_groups) return;
  forgotten_.erase(forgotten_order_.front());
  forgotten_order_.pop_front();
}

bool GroupTable::answer_forgotten(SpId from, const OperationId& operation, std::uint32_t members) const {
  const auto forgotten = forgotten_.find(operation.group);
  if (forgotten == forgotten_.end() || find(operation.group) != nullptr) return false;
  if (forgotten->second.size() < members) return false;
  engine::tell_of_ended(context_, forgotten->second, from, operation);
  return true;
}

void GroupTable::tell_of_ended(SpId from, const OperationId& operation) const {
  static const std::map<WorldRank, Progress> kNone;
  const auto forgotten = forgotten_.find(operation.group);
  const Group* known = find(operation.group);
  if (known != nullptr) return engine::tell_of_ended(context_, known->all_progress(), from, operation);
  engine::tell_of_ended(context_, forgotten == forgotten_.end() ? kNone : forgotten->second, from, operation);
}

}  // namespace outrigger::engine
