#include "engine/core/posts.hpp"

#include <algorithm>
#include <utility>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

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
  if (is_rooted(operation.collective) && operation.root >= size) return nullptr;
  if (!operation.delivered.empty() && operation.delivered.size() != size) return nullptr;
  if (operation.id.sequence == ~std::uint64_t{0}) return nullptr;
  return context_.registry.find(operation.collective, operation.algorithm);
}

// A first incarnation sees every post of a rank in turn. A later one sees those that are replayed first.
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
  // Peers learn of it when they announce.
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
  if (operation.by_course) courses_.steer(known);
  courses_.steer_if_failing(known);
  Operation& open = known.operation(sequence);
  if (open.ranks.find(operation.me) != nullptr) {
    rejected_.push_back(Rejected{operation.rank, operation.slot});
    return;
  }
  Progress& progress = known.progress(operation.rank);
  progress.reopen(sequence);
  progress.next_post = std::max(progress.next_post, sequence + 1);
  open.add(std::move(operation), algorithm);
}

void Posts::restore_progress(WorldRank rank, GroupId id, std::uint64_t next_sequence) {
  if (!context_.is_local(rank)) return;
  Group& known = groups_.get(id);
  Progress& progress = known.progress(rank);
  progress.next_post = std::max(progress.next_post, next_sequence);
  progress.restored_below = std::max(progress.restored_below, next_sequence);
  progress.complete_below(next_sequence);
  // What is open has been posted before: not complete after all.
  const Membership* membership = known.membership();
  const std::optional<GroupRank> me = membership == nullptr ? std::nullopt : membership->find(rank);
  for (const auto& [sequence, operation] : known.operations()) {
    if (me && operation->ranks.find(*me) != nullptr) progress.reopen(sequence);
  }
  // Others are told when everything that is replayed with this has been posted.
  restored_.push_back(Restored{rank, id});
}

bool Posts::complete_rejected() {
  if (rejected_.empty()) return false;
  const std::vector<Rejected> all = std::exchange(rejected_, {});
  for (auto rejected = all.rbegin(); rejected != all.rend(); ++rejected) {
    fabric::CompletionRecord record;
    record.status = CompletionStatus::rejected;
    context_.fabric.complete(rejected->rank, rejected->slot, record);
  }
  return true;
}

// All of them are told of before anything that waits for them is forgotten.
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
