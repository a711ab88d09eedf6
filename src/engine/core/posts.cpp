#include "engine/core/posts.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/core/barrier_shape.hpp"
#include "engine/core/operation.hpp"
#include "engine/core/slices.hpp"

namespace outrigger::engine {
namespace {

bool is_whole_vector(const BlockLayout& layout) {
  return layout.extents.empty() && layout.stride_bytes == 0 && !layout.only;
}

// The rank's part of the result has valid bounds.
bool has_fitting_part(const PostedOperation& operation) {
  const std::uint64_t whole = operation.send.block_bytes;
  const std::uint64_t part = operation.receive.block_bytes;
  const std::uint64_t offset = operation.part_offset_bytes;
  const std::uint64_t width = operation.reduction->element_bytes();
  switch (operation.collective) {
    case Collective::ireduce_scatter:
      return part <= whole && offset <= whole - part && part % width == 0 && offset % width == 0;
    case Collective::ireduce: return part == (operation.me.value() == operation.root ? whole : 0);
    case Collective::ireduce_scatter_block: return part == whole / operation.members->size();
    case Collective::iexscan: return part == (operation.me.value() == 0 ? 0 : whole);
    default: return part == whole;
  }
}

// Neighbor collectives, and no others, have extents; they are in ascending order.
bool has_fitting_neighbors(const PostedOperation& operation) {
  const auto fits = [&operation](const BlockLayout& layout) {
    if (!is_of_neighbors(operation.collective)) return layout.neighbors.empty();
    if (layout.neighbors.empty()) return layout.extents.empty() && layout.block_bytes == 0;
    const bool in_order =
        std::ranges::adjacent_find(layout.neighbors, std::greater_equal<>()) == layout.neighbors.end();
    return in_order && index_of(layout.neighbors.back()) < operation.members->size() && !layout.extents.empty();
  };
  return fits(operation.send) && fits(operation.receive);
}

// A reduction is present if the collective needs one, with whole elements and the right size on both sides.
bool has_fitting_reduction(const PostedOperation& operation) {
  if (!is_reduction(operation.collective)) return !operation.reduction;
  if (!operation.reduction || operation.own_block_done) return false;
  const std::uint64_t bytes = operation.send.block_bytes;
  const std::uint64_t parts = operation.collective == Collective::ireduce_scatter_block ? operation.members->size() : 1;
  return is_whole_vector(operation.send) && is_whole_vector(operation.receive) && has_fitting_part(operation) &&
         bytes % (parts * operation.reduction->element_bytes()) == 0;
}

// Makes the receive side this rank's own slice of the whole vector.
void make_own_slice(PostedOperation& operation, std::uint64_t offset) {
  BlockLayout& receive = operation.receive;
  receive.extents.resize(operation.members->size());
  receive.extents[index_of(operation.me)] = PairExtent{static_cast<std::int64_t>(offset), receive.block_bytes};
  receive.base.address -= offset;
}

// Contributions go to rank 0, the root, which sends the result from its receive buffer to all.
void make_rooted(PostedOperation& operation) {
  const GroupRank root{0};
  BlockLayout& receive = operation.receive;
  operation.root = root.value();
  operation.own_block_done = operation.me == root;
  if (operation.me == root) {
    operation.own_contribution = operation.send.base;
    operation.send = receive;
  } else {
    operation.send.only = root;
  }
  receive.extents.resize(operation.members->size());
  receive.extents[index_of(root)].bytes = receive.block_bytes;
}

// Ranks that would reduce something else find out by the digest.
void cut_receive_side(PostedOperation& operation, const EngineLimits& limits) {
  const std::uint64_t bytes = operation.send.block_bytes;
  BlockLayout& receive = operation.receive;
  switch (operation.collective) {
    case Collective::ireduce_scatter: make_own_slice(operation, operation.part_offset_bytes); break;
    case Collective::ireduce_scatter_block:
      make_own_slice(operation, receive.block_bytes * index_of(operation.me));
      break;
    case Collective::iscan:
    case Collective::iexscan:
      make_own_slice(operation, 0);
      operation.send.first = operation.me;
      break;
    default:
      if (operation.algorithm == Algorithm::rooted && operation.members->size() > 1) {
        make_rooted(operation);
        break;
      }
      receive.extents = cut_into_slices(receive.block_bytes, operation.reduction->element_bytes(),
                                        operation.members->size(), limits.split_bytes);
  }
  operation.digest = reduction_digest(operation.digest, *operation.reduction, bytes);
}

}  // namespace

AlgorithmFunction Posts::check_shape(const PostedOperation& operation) const {
  if (!context_.is_local(operation.rank) || context_.is_dropped(operation.rank)) return nullptr;
  if (operation.members == nullptr || operation.me.value() >= operation.members->size()) return nullptr;
  if ((*operation.members)[operation.me.value()] != operation.rank) return nullptr;
  const std::size_t size = operation.members->size();
  for (const BlockLayout* layout : {&operation.send, &operation.receive}) {
    if (layout->base.owner != operation.rank) return nullptr;
    if (!layout->extents.empty() && layout->extents.size() != size) return nullptr;
    const auto reserved = [](const PairExtent& extent) { return extent.bytes == peer::kSettled; };
    if (std::any_of(layout->extents.begin(), layout->extents.end(), reserved)) return nullptr;
    if (layout->block_bytes == peer::kSettled) return nullptr;
  }
  const bool has_root = is_rooted(operation.collective) || is_for_root(operation.collective);
  if (has_root && operation.root >= size) return nullptr;
  if (!has_fitting_reduction(operation) || !has_fitting_neighbors(operation)) return nullptr;
  if (!operation.marks.empty() && operation.marks.size() != size) return nullptr;
  if (operation.id.sequence == ~std::uint64_t{0}) return nullptr;
  return context_.registry.find(operation.collective, operation.algorithm);
}

// The first incarnation gets all posts of a rank in order. Later ones get replayed posts first.
bool Posts::in_order(const Group* known, const PostedOperation& operation) const {
  const std::uint64_t sequence = operation.id.sequence;
  if (known == nullptr) return sequence == 0 || context_.config.epoch > Epoch{1};
  const std::map<WorldRank, Progress>& all = known->all_progress();
  const auto progress = all.find(operation.rank);
  const std::uint64_t next = progress == all.end() ? 0 : progress->second.next_post;
  if (sequence == next) return true;
  if (context_.config.epoch == Epoch{1}) return false;
  return sequence > next || (progress != all.end() && sequence < progress->second.restored_below);
}

void Posts::reject(const PostedOperation& operation) {
  rejected_.push_back(Rejected{operation.rank, operation.slot});
  if (!context_.is_local(operation.rank) || !in_order(groups_.find(operation.id.group), operation)) return;
  // Peers find out when they announce.
  Group& known = groups_.get(operation.id.group);
  Progress& progress = known.progress(operation.rank);
  progress.next_post = std::max(progress.next_post, operation.id.sequence + 1);
  progress.complete(operation.id.sequence, CompletionStatus::rejected);
  restored_.push_back(Restored{operation.rank, operation.id.group});
}

void Posts::post(PostedOperation&& operation) {
  const AlgorithmFunction algorithm = check_shape(operation);
  Group* found = groups_.find(operation.id.group);
  if (algorithm == nullptr || !in_order(found, operation)) return reject(operation);
  const std::uint64_t sequence = operation.id.sequence;
  Group& known = found != nullptr ? *found : groups_.get(operation.id.group);
  if (!known.set_members(operation.members)) return reject(operation);
  Operation& open = known.operation(sequence);
  if (open.ranks.find(operation.me) != nullptr) {
    rejected_.push_back(Rejected{operation.rank, operation.slot});
    return;
  }
  Progress& progress = known.progress(operation.rank);
  progress.reopen(sequence);
  progress.next_post = std::max(progress.next_post, sequence + 1);
  if (is_for_root(operation.collective)) operation.send.only = GroupRank{operation.root};
  if (operation.collective == Collective::ibarrier) set_barrier_pairs(operation, *known.membership());
  if (operation.reduction) cut_receive_side(operation, context_.config.limits);
  open.add(std::move(operation), algorithm);
}

void Posts::restore_progress(WorldRank rank, GroupId id, std::uint64_t next_sequence) {
  if (!context_.is_local(rank)) return;
  Group& known = groups_.get(id);
  Progress& progress = known.progress(rank);
  progress.next_post = std::max(progress.next_post, next_sequence);
  progress.restored_below = std::max(progress.restored_below, next_sequence);
  progress.complete_below(next_sequence);
  // Open operations were posted again, so they are not complete.
  const Membership* membership = known.membership();
  const std::optional<GroupRank> me = membership == nullptr ? std::nullopt : membership->find(rank);
  for (const auto& [sequence, operation] : known.operations()) {
    if (me && operation->ranks.find(*me) != nullptr) progress.reopen(sequence);
  }
  // Peers are notified after everything that is replayed with this has been posted.
  restored_.push_back(Restored{rank, id});
}

bool Posts::complete_rejected() {
  if (rejected_.empty()) return false;
  const std::vector<Rejected> all = std::exchange(rejected_, {});
  for (auto rejected = all.rbegin(); rejected != all.rend(); ++rejected) {
    fabric::CompletionRecord record;
    record.status = CompletionStatus::rejected;
    context_.fabric.ranks.complete(rejected->rank, rejected->slot, record);
  }
  return true;
}

// Reports all restored operations before any kept announcement is dropped.
bool Posts::tell_of_restored() {
  if (restored_.empty()) return false;
  const std::vector<Restored> all = std::exchange(restored_, {});
  for (const Restored& restored : all) {
    Group* known = groups_.find(restored.group);
    if (known == nullptr) continue;
    for (const auto& [sequence, operation] : known->operations()) operation->restored(restored.rank);
  }
  for (const Restored& restored : all) {
    Group* known = groups_.find(restored.group);
    if (known == nullptr) continue;
    std::vector<std::uint64_t> sequences;
    for (const auto& [sequence, operation] : known->operations()) sequences.push_back(sequence);
    for (const std::uint64_t sequence : sequences) {
      known->find_operation(sequence)->matcher.forget_met_by_restored();
      groups_.close_if_over(*known, sequence);
    }
  }
  return true;
}

}  // namespace outrigger::engine
