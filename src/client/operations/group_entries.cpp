#include "client/operations/group_entries.hpp"

#include <algorithm>
#include <atomic>

namespace outrigger::client {

void GroupEntries::enter(const Group& group) {
  const std::uint32_t index = take();
  group.list_at(index);
  if (index == kGroupEntries) {
    segment_.header().groups_unlisted.fetch_add(1, std::memory_order_seq_cst);
    return;
  }
  GroupEntry& entry = segment_.group(index);
  entry.generation.fetch_add(1, std::memory_order_seq_cst);
  entry.state.store(static_cast<std::uint32_t>(GroupState::none), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // who reads what follows sees that it is not the former group's
  entry.group_high = group.id().high;
  entry.group_low = group.id().low;
  entry.group_size = group.size();
  entry.group_rank = group.me().value();
  entry.members = LocalRef{group.members().region.value(), 0, group.members().address};
  entry.plan = group.plan().value;
  entry.done_below.store(0, std::memory_order_relaxed);
  entry.state.store(static_cast<std::uint32_t>(GroupState::in_use), std::memory_order_release);
}

void GroupEntries::note_done(const Group& group, std::uint64_t sequence) {
  if (group.listed_at() >= kGroupEntries) return;
  std::atomic<std::uint64_t>& below = segment_.group(group.listed_at()).done_below;
  below.store(std::max(below.load(std::memory_order_relaxed), sequence + 1), std::memory_order_release);
}

void GroupEntries::retire(const Group& group) {
  if (group.listed_at() >= kGroupEntries) {
    segment_.header().groups_unlisted.fetch_sub(1, std::memory_order_seq_cst);
    return;
  }
  segment_.group(group.listed_at())
      .state.store(static_cast<std::uint32_t>(GroupState::freed), std::memory_order_release);
  freed_.push_back(group.listed_at());
}

std::uint32_t GroupEntries::take() {
  if (used_ < kGroupEntries && freed_.size() < kRemembered) {
    const std::uint32_t index = used_++;
    segment_.header().groups_used.store(used_, std::memory_order_release);
    return index;
  }
  if (freed_.empty()) return kGroupEntries;
  const std::uint32_t index = freed_.front();
  freed_.pop_front();
  return index;
}

}  // namespace outrigger::client
