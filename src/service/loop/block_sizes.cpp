#include "service/loop/block_sizes.hpp"

#include <algorithm>
#include <utility>

#include "protocol/options/selection.hpp"

namespace outrigger::service {
namespace {

bool has_small_blocks(const engine::BlockLayout& layout) {
  const auto is_small = [](const PairExtent& extent) { return extent.bytes <= kSmallBlockBytes; };
  if (layout.extents.empty()) return layout.block_bytes <= kSmallBlockBytes;
  return std::ranges::all_of(layout.extents, is_small);
}

}  // namespace

bool BlockSizes::note(const engine::PostedOperation& operation) {
  if (has_alike_blocks(operation.collective)) return false;
  Sizes& sizes = groups_[operation.id.group][index_of(operation.collective)];
  if (!has_small_blocks(operation.send) || !has_small_blocks(operation.receive)) {
    sizes.in_a_row = 0;
    return std::exchange(sizes.small, false);
  }
  // Ranks of one operation come one by one.
  if (std::exchange(sizes.last_sequence, operation.id.sequence) != operation.id.sequence) ++sizes.in_a_row;
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

}  // namespace outrigger::service
