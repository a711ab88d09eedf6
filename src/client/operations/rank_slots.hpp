// The rank's end of the operation slots and of the ring that posts them (protocol/shared/segment.hpp).
//
// Under the lock.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "client/operations/pending_operation.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class Slots {
 public:
  explicit Slots(SegmentView segment) : segment_(segment), operations_(kSlotCount) {
    tail_ = segment.header().ring_tail.load(std::memory_order_relaxed);
    free_.reserve(kSlotCount);
    for (std::uint32_t slot = kSlotCount; slot > 0; --slot) free_.emplace_back(slot - 1);
  }

  [[nodiscard]] std::size_t free_count() const { return free_.size(); }
  [[nodiscard]] bool all_in_use() const { return free_.empty(); }

  // There must be a free slot, which the next post() takes. The request may be filled in here.
  [[nodiscard]] SlotRequestBody& next_request() {
    std::atomic_thread_fence(std::memory_order_release);  // the slot's earlier state `free` must be visible first
    return segment_.slot(free_.back()).body;
  }
  // Its marks, which are zero.
  [[nodiscard]] LocalRef next_marks() const {
    std::byte* const marks = segment_.marks(free_.back());
    std::memset(marks, 0, kSlotMarksBytes);
    return {kArenaRegion.value(), 0, reinterpret_cast<std::uintptr_t>(marks)};
  }
  // There must be a free slot. The caller looks afterwards whether the service process sleeps.
  void post(PendingOperation& operation, const SlotRequestBody& body) {
    const SlotIndex slot = publish(body);
    operations_[slot.value()] = &operation;
    operation.place = &segment_.slot(slot);
    operation.number = slot.value();
  }
  // A request without an operation; collect() frees its slot.
  void post_unowned(const SlotRequestBody& body) { publish(body); }
  // The result has been read.
  void release(SlotIndex slot) {
    assert(is_done(segment_.slot(slot)) && "the service process still uses it");
    segment_.slot(slot).state.store(static_cast<std::uint32_t>(SlotState::free), std::memory_order_release);
    operations_[slot.value()] = nullptr;
    free_.push_back(slot);
  }
  // Calls take_back(operation), which may release the slot, for each operation in a slot. Calls done(request) for each
  // finished request without an operation, and releases its slot.
  template <class TakeBack, class Done>
  void collect(const TakeBack& take_back, const Done& done) {
    for (std::uint32_t i = 0; i < kSlotCount; ++i) {
      if (operations_[i] != nullptr) {
        take_back(*operations_[i]);
      } else if (is_done(segment_.slot(SlotIndex(i)))) {
        done(segment_.slot(SlotIndex(i)).body);
        release(SlotIndex(i));
      }
    }
  }
  template <class Visit>
  void each(const Visit& visit) const {
    for (const PendingOperation* operation : operations_) {
      if (operation != nullptr) visit(*operation);
    }
  }

 private:
  SlotIndex publish(const SlotRequestBody& body) {
    assert(!free_.empty() && "the ring has no more entries than there are slots");
    if (SlotRequestBody& next = next_request(); &next != &body) next = body;
    const SlotIndex index = free_.back();
    free_.pop_back();
    OperationSlot& slot = segment_.slot(index);
    slot.position = tail_;
    slot.state.store(static_cast<std::uint32_t>(SlotState::posted), std::memory_order_release);
    segment_.ring_entry(tail_).store(index.value(), std::memory_order_relaxed);
    segment_.header().ring_tail.store(++tail_, std::memory_order_seq_cst);
    return index;
  }

  SegmentView segment_;
  std::uint32_t tail_ = 0;
  std::vector<SlotIndex> free_;
  std::vector<PendingOperation*> operations_;  // by slot; nullptr: free, or a request without an operation
};

}  // namespace outrigger::client
