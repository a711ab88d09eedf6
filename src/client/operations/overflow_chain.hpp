// The rank's end of the chain of overflow records (segment.hpp): its operations, and the records to give back.
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
  // True while the service process has not taken all operations: the next ones must be appended here, too.
  [[nodiscard]] bool holds_posts(const SegmentHeader& header) {
    if (open_) open_ = header.overflow_taken.load(std::memory_order_acquire) != next_number_;
    return open_;
  }
  // The caller looks afterwards whether the service process sleeps. `range` is of an OverflowRecord.
  void append(SegmentHeader& header, const MemoryRange& range, PendingOperation& operation,
              const SlotRequestBody& body);
  // Its result has been read.
  void finish(const PendingOperation& operation);
  // The oldest operation that is not finished; nullptr if there is none.
  [[nodiscard]] PendingOperation* oldest() const;
  // Gives the memory of records that are no longer read back to `arguments`.
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
