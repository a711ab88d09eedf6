// The operations of this rank from post to done. They are in slots or in overflow records. They wait here while there
// is no argument memory, or no slot of a DPU's; waiting operations are posted in order.
//
// Under the lock, but for anything_waits().
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "client/memory/argument_memory.hpp"
#include "client/memory/regions.hpp"
#include "client/operations/doorbell.hpp"
#include "client/operations/group_entries.hpp"
#include "client/operations/overflow_chain.hpp"
#include "client/operations/pending_operation.hpp"
#include "client/operations/plan_numbers.hpp"
#include "client/operations/rank_slots.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class Posts {
 public:
  Posts(SegmentView segment, Regions& regions, ArgumentMemory& arguments, Doorbell& doorbell)
      : header_(segment.header()),
        regions_(regions),
        arguments_(arguments),
        doorbell_(doorbell),
        slots_(segment),
        plans_(segment),
        groups_(segment) {}

  // Where to fill in the next request: its slot, if it gets one.
  [[nodiscard]] SlotRequestBody& next_request() {
    return waiting_.empty() && !overflows() ? slots_.next_request() : without_slot_;
  }
  // Posts, or keeps until it can be. Fills in where the arguments are. False: no memory is left for them, and none will
  // come back.
  [[nodiscard]] bool post(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments) {
    return (waiting_.empty() && place(operation, body, arguments)) || post_or_keep(operation, body, arguments);
  }
  // Sends the request when post_waiting() finds a slot. No caller waits for its completion.
  void tell(const SlotRequestBody& request) { tidings_.push_back(request); }
  // Posts what waits, in order, as far as it goes.
  void post_waiting();
  // Any thread. There is something for post_waiting().
  [[nodiscard]] bool anything_waits() const { return waiting_count_.load(std::memory_order_relaxed) != 0; }
  // An operation waits, and argument memory grows.
  [[nodiscard]] bool waits_for_growth() const { return !waiting_.empty() && arguments_.growing(); }

  // Before the first request that names the group.
  void use(const Group& group);
  // All operations on the group are done. Its entries in the segment are free when the service processes have removed
  // it.
  void retire(const Group& group);
  // For the members of a new group; nullopt if there is no room at present.
  [[nodiscard]] std::optional<MemoryRange> allocate_members(std::uint64_t bytes);
  // For a new group.
  [[nodiscard]] PlanNumber take_plan();

  // True if it is done; then its result has been read.
  bool collect_if_done(PendingOperation& operation);
  // The same for a kept operation that is filled: only its result is read.
  bool collect_if_filled(PendingOperation& operation);
  // Kept operations that were dropped and are done now. The caller destroys them without the lock, which groups take.
  [[nodiscard]] std::vector<std::unique_ptr<PendingOperation>> take_read();
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }
  // Takes back slots and records that are done, also of operations that are not polled: a program may wait for its last
  // operation first. True if there was any.
  bool reap();
  // The owner drops it. Taken over if the service process still uses it.
  void drop(std::unique_ptr<PendingOperation>& operation);
  // At the end: the operations that were dropped before they were done. The caller destroys them without the lock,
  // which groups take.
  [[nodiscard]] std::vector<std::unique_ptr<PendingOperation>> abandon();

  // Calls visit(operation) for each that is not done.
  template <class Visit>
  void each(const Visit& visit) const {
    slots_.each(visit);
    overflow_.each(visit);
    for (const PendingOperation* operation : waiting_) visit(*operation);
  }
  [[nodiscard]] std::size_t slots_in_use() const { return kSlotCount - slots_.free_count(); }
  [[nodiscard]] std::size_t without_slot() const { return waiting_.size() + overflow_.unfinished(); }

 private:
  [[nodiscard]] bool post_or_keep(PendingOperation& operation, SlotRequestBody& body,
                                  const OperationArguments& arguments);
  // Puts the request into a slot, or an overflow record. False: no argument memory at present; no slot of a DPU's.
  [[nodiscard]] bool place(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments);
  [[nodiscard]] bool place_in_slot(PendingOperation& operation, SlotRequestBody& body,
                                   const OperationArguments& arguments);
  [[nodiscard]] bool place_in_record(PendingOperation& operation, SlotRequestBody& body,
                                     const OperationArguments& arguments);
  // Fills in where they are.
  [[nodiscard]] bool copy_arguments(PendingOperation& operation, SlotRequestBody& body,
                                    const OperationArguments& arguments);
  [[nodiscard]] std::optional<MemoryRange> allocate_arguments(std::uint64_t bytes);
  [[nodiscard]] std::optional<MemoryRange> reap_and_allocate(std::uint64_t bytes, bool may_grow);
  void reject(PendingOperation& operation);
  [[nodiscard]] bool nothing_can_be_placed() const { return arguments_.cannot_grow() && placed_ == 0; }
  // The next operation gets no slot.
  [[nodiscard]] bool overflows() { return overflow_.holds_posts(header_) || out_of_slots(); }
  [[nodiscard]] bool out_of_slots() { return slots_.all_in_use() && (!reap() || slots_.all_in_use()); }
  void note_waiting() { waiting_count_.store(waiting_.size() + tidings_.size(), std::memory_order_relaxed); }

  SegmentHeader& header_;
  Regions& regions_;
  ArgumentMemory& arguments_;
  Doorbell& doorbell_;
  Slots slots_;
  PlanNumbers plans_;
  GroupEntries groups_;
  OverflowChain overflow_;
  std::size_t placed_ = 0;        // operations in slots and records
  SlotRequestBody without_slot_;  // next_request()
  std::deque<PendingOperation*> waiting_;
  std::deque<SlotRequestBody> tidings_;
  std::atomic<std::size_t> waiting_count_{0};  // of both
  std::uint32_t reaped_completions_ = 0;       // header_.completions when all slots were looked at last ...
  std::uint32_t looked_completions_ = 0;       // ... and when those of kept_ were
  std::vector<std::unique_ptr<PendingOperation>> abandoned_;
  std::vector<std::unique_ptr<PendingOperation>> kept_;  // dropped when they were filled, the oldest first
};

}  // namespace outrigger::client
