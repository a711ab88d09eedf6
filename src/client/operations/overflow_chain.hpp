// The rank's end of the chain of overflow records (segment.hpp): what is in it, and what of it can be given back.
//
// Under the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "client/memory/argument_memory.hpp"
#include "client/operations/pending_operation.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class OverflowChain {
 public:
  // Operations go on following each other here: the service process has not taken all of them.
  [[nodiscard]] bool holds_posts(const SegmentHeader& header) {
    if (open_) open_ = header.overflow_taken.load(std::memory_order_acquire) != next_number_;
    return open_;
  }
  // The caller looks afterwards whether the service process sleeps. `range` is of an OverflowRecord.
  void append(SegmentHeader& header, const MemoryRange& range, PendingOperation& operation,
              const SlotRequestBody& body);
  // Its result has been read.
  void finish(const PendingOperation& operation);
  // The oldest operation that is not finished; null: none.
  [[nodiscard]] PendingOperation* oldest() const;
  // Records that nobody looks at any more go back to where they came from.
  void give_back(SegmentHeader& header, ArgumentMemory& arguments);

  [[nodiscard]] std::size_t unfinished() const { return unfinished_; }
  template <class Visit>
  void each(const Visit& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.operation != nullptr) visit(*entry.operation);
    }
  }

 private:
  struct Entry {
    MemoryRange range;
    PendingOperation* operation = nullptr;  // null: finished
  };

  [[nodiscard]] std::uint32_t first_number() const {
    return next_number_ - static_cast<std::uint32_t>(entries_.size());
  }
  void name_first(SegmentHeader& header) const;

  std::deque<Entry> entries_;  // the oldest first; the last stays
  std::uint32_t next_number_ = 0;
  std::size_t unfinished_ = 0;
  bool open_ = false;
};

}  // namespace outrigger::client
