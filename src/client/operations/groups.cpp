#include <cstring>

#include "client/rank_endpoint.hpp"

namespace outrigger::client {

std::shared_ptr<const Group> RankEndpoint::define_group(GroupId id, const std::vector<WorldRank>& members,
                                                        GroupRank me) {
  static_assert(sizeof(WorldRank) == sizeof(std::uint32_t));
  if (inert() || members.empty() || members.size() > kMaxGroupSize || me.value() >= members.size()) return nullptr;
  const std::optional<MemoryRange> range = allocate_in_chunks(arguments_, members.size() * sizeof(WorldRank));
  if (!range) return nullptr;
  std::memcpy(reinterpret_cast<void*>(range->address), members.data(), members.size() * sizeof(WorldRank));
  return std::make_shared<const Group>(shared_from_this(), id, static_cast<std::uint32_t>(members.size()), me, *range);
}

void RankEndpoint::retire_group(const Group& group) noexcept try {
  if (inert()) return;
  Lock lock(mutex_);
  if (inert()) return;
  // Every operation on the group is done, or the group would still be held: nobody reads the members any more.
  arguments_.release(group.members());
  growth_failed_ = false;
  if (group.used()) waiting_forgets_.push_back(group.id());
  post_waiting();
  unlock_and_ring(lock);
} catch (...) {
  // No memory: the service processes keep a group too long, which harms nobody.
}

}  // namespace outrigger::client
