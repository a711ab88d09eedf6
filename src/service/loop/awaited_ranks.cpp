#include "service/loop/awaited_ranks.hpp"

#include <functional>

namespace outrigger::service {

std::optional<GroupRank> AwaitedRanks::posted(const OperationId& operation, GroupRank rank, std::uint32_t group_size) {
  Last& last = groups_[std::hash<GroupId>{}(operation.group) % kGroups];
  const std::uint64_t sequence_and_one = operation.sequence + 1;
  const bool same_group = last.group == operation.group;
  if (same_group && last.sequence_and_one > sequence_and_one) return std::nullopt;
  if (!same_group || last.sequence_and_one != sequence_and_one) last = {operation.group, sequence_and_one};
  ++last.posts;
  last.sum_of_ranks += rank.value();
  if (last.posts + 1 != group_size) return std::nullopt;
  const std::uint64_t sum_of_all = std::uint64_t{group_size} * (group_size - 1) / 2;
  return GroupRank{static_cast<std::uint32_t>(sum_of_all - last.sum_of_ranks)};
}

}  // namespace outrigger::service
