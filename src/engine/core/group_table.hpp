// The groups that a service process knows, and groups that its ranks have freed or left by their end: a replayed peer
// may still ask about those.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "engine/core/context.hpp"
#include "engine/core/group.hpp"

namespace outrigger::engine {

class GroupTable {
 public:
  using Groups = std::unordered_map<GroupId, std::unique_ptr<Group>>;

  explicit GroupTable(Context& context) : context_(context) {}

  [[nodiscard]] Group& get(GroupId id);  // made at first use
  [[nodiscard]] Group* find(GroupId id) const;
  [[nodiscard]] const Groups& all() const { return groups_; }

  // Removes the operation if no local rank takes part in it any more.
  void close_if_over(Group& group, std::uint64_t sequence);
  // Removes the group if every local member has freed it or is gone, and no operation is open.
  void close_if_freed(Group& group);
  void close_all_freed();

  [[nodiscard]] bool is_forgotten(GroupId id) const { return forgotten_.contains(id) && find(id) == nullptr; }
  // Answers for a forgotten group. True: no local rank will post on it any more.
  bool answer_forgotten(SpId from, const OperationId& operation, std::uint32_t members) const;
  // Where the group's members are unknown.
  void tell_of_ended(SpId from, const OperationId& operation) const;

 private:
  // Its local ranks. All have freed it, or are lost.
  using Forgotten = std::map<WorldRank, Progress>;

  void remember(GroupId id, WorldRank rank, Progress&& progress);

  Context& context_;
  Groups groups_;
  std::unordered_map<GroupId, Forgotten> forgotten_;
  std::deque<GroupId> forgotten_order_;
};

}  // namespace outrigger::engine
