// The members of groups that local ranks have posted on, shared by all their operations.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.hpp"
#include "protocol/ids.hpp"

namespace outrigger::service {

using Members = std::shared_ptr<const std::vector<WorldRank>>;

// Not thread safe.
class GroupCache {
 public:
  // Open groups per rank. At the limit its posts on further groups are rejected.
  static constexpr std::size_t kMaxGroupsPerRank = 1U << 16;

  explicit GroupCache(std::uint32_t world_size);

  // Returns the group's members. New ones are read once from `members` (world ranks, in the rank's shared memory).
  // Errors: a member outside the world or named twice, other members than before, or members[me] is not `rank`.
  [[nodiscard]] Result<Members> intern(WorldRank rank, GroupId group, std::span<const std::uint32_t> members,
                                       GroupRank me);
  // True if the rank has posted on the group and not freed it.
  [[nodiscard]] bool uses(WorldRank rank, GroupId group) const;
  void forget(WorldRank rank, GroupId group);
  void forget_rank(WorldRank rank);
  [[nodiscard]] std::size_t size() const { return groups_.size(); }

 private:
  struct Entry {
    Members members;
    std::unordered_set<WorldRank> users;
  };
  [[nodiscard]] Result<Members> read_members(std::span<const std::uint32_t> members);

  std::uint32_t world_size_;
  std::unordered_map<GroupId, Entry> groups_;
  std::unordered_map<WorldRank, std::size_t> groups_of_rank_;
  std::vector<bool> seen_;  // scratch of read_members(), all false between calls
};

}  // namespace outrigger::service
