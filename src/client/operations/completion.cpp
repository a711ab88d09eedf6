#include <algorithm>
#include <utility>

#include "client/operations/completion_watch.hpp"
#include "client/rank_endpoint.hpp"

namespace outrigger::client {
namespace {

using Phase = PendingOperation::Phase;

OperationResult result_of(const OperationSlot& slot) {
  OperationResult result;
  const std::uint32_t status = slot.result.status;
  const bool known = status <= static_cast<std::uint32_t>(CompletionStatus::peer_lost);
  result.status = known ? static_cast<CompletionStatus>(status) : CompletionStatus::rejected;
  result.bytes_by_reach = slot.result.bytes_by_reach;
  result.late_announcements = slot.result.late_announcements;
  return result;
}

bool is_done(const OperationSlot& slot) {
  return slot.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(SlotState::done);
}

}  // namespace

bool RankEndpoint::poll(PendingOperation& operation) {
  Phase phase = operation.phase.load(std::memory_order_acquire);
  if (phase == Phase::done) return true;
  if (inert()) return false;
  if (network_ && network_->ringing()) {
    const Lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) network_->progress();
  }
  // Read before the slot: a completion after this read ends the next sleep.
  CompletionWatch& watch = completion_watch();
  const bool first = watch.client != serial_;
  const std::uint32_t completions = first ? header().completions.load(std::memory_order_acquire) : watch.completions;
  if (phase == Phase::posted && is_done(*operation.place)) {
    Lock lock(mutex_);
    const bool done = collect_if_done(operation);
    if (waiting_count_.load(std::memory_order_relaxed) != 0) post_waiting();
    unlock_and_ring(lock);
    if (done) return true;
  } else if (waiting_count_.load(std::memory_order_relaxed) != 0) {
    Lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) {
      post_waiting();
      unlock_and_ring(lock);
    }
  }
  if (first) watch = CompletionWatch{serial_, completions};
  return operation.phase.load(std::memory_order_acquire) == Phase::done;
}

bool RankEndpoint::collect_if_done(PendingOperation& operation) {
  if (operation.phase.load(std::memory_order_relaxed) == Phase::done) return true;
  if (operation.phase.load(std::memory_order_relaxed) != Phase::posted) return false;
  const OperationSlot& place = *operation.place;
  if (!is_done(place)) return false;
  operation.result = result_of(place);
  arguments_.release(operation.arguments);
  if (keys_) release_keys(place.body);
  if (operation.overflowed) {
    overflow_.finish(operation);
    overflow_.give_back(header(), arguments_);
  } else {
    free_slot(SlotIndex(operation.number));
  }
  growth_failed_ = false;
  --posted_operations_;
  operation.phase.store(Phase::done, std::memory_order_release);
  return true;
}

void RankEndpoint::free_slot(SlotIndex slot) {
  segment_.view().slot(slot).state.store(static_cast<std::uint32_t>(SlotState::free), std::memory_order_release);
  in_slot_[slot.value()] = nullptr;
  free_slots_.push_back(slot);
}

void RankEndpoint::finish_locally(PendingOperation& operation, CompletionStatus status) {
  if (keys_ && operation.deferred) release_keys(operation.deferred->body);
  operation.deferred.reset();
  operation.result.status = status;
  operation.phase.store(Phase::done, std::memory_order_release);
}

bool RankEndpoint::reap() {
  // Counted after the slot is done: nothing new is done while the count stands.
  const std::uint32_t completions = header().completions.load(std::memory_order_acquire);
  if (std::exchange(reaped_completions_, completions) == completions) return false;
  const std::size_t free_before = free_slots_.size();
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    const SlotIndex slot(i);
    if (in_slot_[i] != nullptr) {
      collect_if_done(*in_slot_[i]);
    } else if (is_done(segment_.view().slot(slot))) {
      free_slot(slot);
    }
  }
  const std::size_t overflowed_before = overflow_.unfinished();
  while (PendingOperation* oldest = overflow_.oldest()) {
    if (!collect_if_done(*oldest)) break;
  }
  return free_slots_.size() != free_before || overflow_.unfinished() != overflowed_before;
}

void RankEndpoint::drop(std::unique_ptr<PendingOperation> operation) noexcept try {
  if (inert() || operation->phase.load(std::memory_order_acquire) == Phase::done) return;
  const Lock lock(mutex_);
  if (inert() || collect_if_done(*operation)) return;
  if (operation->phase.load(std::memory_order_relaxed) == Phase::waiting) {
    std::erase(waiting_, operation.get());
    if (keys_) release_keys(operation->deferred->body);
    note_waiting();
    return;
  }
  abandoned_.push_back(std::move(operation));
} catch (...) {
  // No memory to remember it by. It is lost with its slot, as it must be: the service process still uses them.
  static_cast<void>(operation.release());
}

Client::Usage RankEndpoint::usage() {
  Lock lock(mutex_);
  if (inert()) return {};
  reap();
  post_waiting();
  Client::Usage usage;
  usage.slots = kSlotCount - free_slots_.size();
  usage.without_slot = waiting_.size() + overflow_.unfinished();
  usage.argument_bytes = arguments_.bytes_in_use();
  usage.staging_bytes = staging_bytes_;
  usage.regions = live_regions_.load();
  unlock_and_ring(lock);
  return usage;
}

}  // namespace outrigger::client
