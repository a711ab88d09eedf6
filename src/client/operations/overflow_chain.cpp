#include "client/operations/overflow_chain.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <new>

namespace outrigger::client {
namespace {

OverflowRecord& record_in(const MemoryRange& range) {
  return *reinterpret_cast<OverflowRecord*>(range.address);
}

}  // namespace

void OverflowChain::append(SegmentHeader& header, const MemoryRange& range, PendingOperation& operation,
                           const SlotRequestBody& body) {
  entries_.push_back(Entry{range, &operation});
  auto* record = new (reinterpret_cast<void*>(range.address)) OverflowRecord{};
  record->operation.body = body;
  record->number = next_number_;
  record->operation.state.store(static_cast<std::uint32_t>(SlotState::posted), std::memory_order_release);
  operation.place = &record->operation;
  operation.overflowed = true;
  operation.number = next_number_++;
  if (entries_.size() == 1) {
    name_first(header);
  } else {
    record_in(entries_[entries_.size() - 2].range).next = LocalRef{range.region.value(), 0, range.address};
  }
  ++unfinished_;
  open_ = true;
  header.overflow_tail.store(next_number_, std::memory_order_seq_cst);
}

void OverflowChain::finish(const PendingOperation& operation) {
  assert(is_done(*operation.place) && operation.number - first_number() < entries_.size());
  operation.place->state.store(static_cast<std::uint32_t>(SlotState::free), std::memory_order_release);
  entries_[operation.number - first_number()].operation = nullptr;
  --unfinished_;
}

PendingOperation* OverflowChain::oldest() const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.operation != nullptr; });
  return found == entries_.end() ? nullptr : found->operation;
}

void OverflowChain::give_back(SegmentHeader& header, ArgumentMemory& arguments) {
  const std::uint32_t taken = header.overflow_taken.load(std::memory_order_acquire);
  const std::size_t before = entries_.size();
  while (entries_.size() > 1 && entries_.front().operation == nullptr && taken - first_number() > 1) {
    arguments.release(entries_.front().range);
    entries_.pop_front();
  }
  if (entries_.size() != before) name_first(header);
}

void OverflowChain::name_first(SegmentHeader& header) const {
  const MemoryRange& first = entries_.front().range;
  header.overflow_first_address.store(first.address, std::memory_order_relaxed);
  header.overflow_first_region.store(first.region.value(), std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);  // before what was in front of it is used for anything else
}

}  // namespace outrigger::client
