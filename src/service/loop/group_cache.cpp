#include "service/loop/group_cache.hpp"

#include <cstring>
#include <iterator>
#include <string>

namespace outrigger::service {

GroupCache::GroupCache(std::uint32_t world_size) : world_size_(world_size), seen_(world_size, false) {}

Result<Members> GroupCache::intern(WorldRank rank, GroupId group, std::span<const std::uint32_t> members,
                                   GroupRank me) {
  if (me.value() >= members.size()) return Error{"the group rank is not below the group's size"};
  auto found = groups_.find(group);
  if (found == groups_.end()) {
    Result<Members> read = read_members(members);
    if (!read) return read;
    if ((*read.value())[me.value()] != rank) return Error{"the posting rank is not the member that it claims to be"};
    if (groups_of_rank_[rank] >= kMaxGroupsPerRank) return Error{"too many groups are open"};
    found = groups_.emplace(group, Entry{std::move(read).value(), {}}).first;
  }
  Entry& entry = found->second;
  static_assert(sizeof(WorldRank) == sizeof(std::uint32_t));
  if (entry.members->size() != members.size() ||
      std::memcmp(entry.members->data(), members.data(), members.size_bytes()) != 0) {
    return Error{"the group's members differ from those of an earlier post"};
  }
  if ((*entry.members)[me.value()] != rank) return Error{"the posting rank is not the member that it claims to be"};
  if (!entry.users.contains(rank)) {
    if (groups_of_rank_[rank] >= kMaxGroupsPerRank) return Error{"too many groups are open"};
    entry.users.insert(rank);
    ++groups_of_rank_[rank];
  }
  return entry.members;
}

Result<Members> GroupCache::read_members(std::span<const std::uint32_t> members) {
  auto list = std::make_shared<std::vector<WorldRank>>();
  list->reserve(members.size());
  std::string problem;
  for (const std::uint32_t& shared : members) {
    // read once: others may write to it
    const std::uint32_t member = *const_cast<const volatile std::uint32_t*>(&shared);
    if (member >= world_size_) {
      problem = "member " + std::to_string(member) + " is outside the world";
      break;
    }
    if (seen_[member]) {
      problem = "member " + std::to_string(member) + " is named twice";
      break;
    }
    seen_[member] = true;
    list->emplace_back(member);
  }
  for (const WorldRank member : *list) seen_[member.value()] = false;
  if (!problem.empty()) return Error{problem};
  return Members(std::move(list));
}

bool GroupCache::uses(WorldRank rank, GroupId group) const {
  const auto found = groups_.find(group);
  return found != groups_.end() && found->second.users.contains(rank);
}

void GroupCache::forget(WorldRank rank, GroupId group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.users.erase(rank) == 0) return;
  --groups_of_rank_[rank];
  if (found->second.users.empty()) groups_.erase(found);
}

void GroupCache::forget_rank(WorldRank rank) {
  groups_of_rank_.erase(rank);
  for (auto item = groups_.begin(); item != groups_.end();) {
    item->second.users.erase(rank);
    item = item->second.users.empty() ? groups_.erase(item) : std::next(item);
  }
}

}  // namespace outrigger::service
