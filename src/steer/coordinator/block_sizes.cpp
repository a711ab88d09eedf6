#include "steer/coordinator/block_sizes.hpp"

#include <algorithm>
#include <utility>

#include "protocol/options/selection.hpp"

namespace outrigger::steer {

bool BlockSizes::note(const OperationId& operation, Collective collective, bool small) {
  if (has_alike_blocks(collective)) return false;
  Sizes& sizes = groups_[operation.group][index_of(collective)];
  if (!small) {
    sizes.in_a_row = 0;
    return std::exchange(sizes.small, false);
  }
  // Ranks of one operation come one by one.
  if (std::exchange(sizes.last_sequence, operation.sequence) != operation.sequence) ++sizes.in_a_row;
  return sizes.in_a_row > sizes.enough && !std::exchange(sizes.small, true);
}

bool BlockSizes::note_larger(const GroupId& group, Collective collective) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return false;
  Sizes& sizes = found->second[index_of(collective)];
  if (!sizes.small) return false;
  sizes = Sizes{sizes.last_sequence, 0, std::min(sizes.enough * 4, kMost), false};
  return true;
}

CollectiveBits BlockSizes::small(const GroupId& group) const {
  const auto found = groups_.find(group);
  CollectiveBits bits = 0;
  if (found == groups_.end()) return bits;
  for (const CollectiveRow& row : kCollectives) {
    if (found->second[index_of(row.collective)].small) bits |= Suspended::bit(row.collective);
  }
  return bits;
}

}  // namespace outrigger::steer
