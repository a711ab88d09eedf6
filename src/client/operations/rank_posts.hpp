// The operations of this rank from post to done: in slots, in overflow records behind them, or, for want of argument
// memory or of a slot of a DPU's, waiting here. Of those that wait none overtakes another.
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
        groups_(segment) {
    spare_.reserve(kMostSpare);
  }

  // For one that is to be posted, or is not after all: then it is dropped without the lock.
  [[nodiscard]] std::unique_ptr<PendingOperation> make() {
    if (spare_.empty()) return std::make_unique<PendingOperation>();
    std::unique_ptr<PendingOperation> operation = std::move(spare_.back());
    spare_.pop_back();
    return operation;
  }
  // It is done, and has no group any more: who gives that up takes the lock.
  void recycle(std::unique_ptr<PendingOperation> operation) {
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(operation));
  }
  // Posts, or keeps until it can be. Fills in where the arguments are. False: no memory is left for them, and none will
  // come back.
  [[nodiscard]] bool post(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments) {
    return (waiting_.empty() && place(operation, body, arguments)) || post_or_keep(operation, body, arguments);
  }
  // The service processes are told, as soon as post_waiting() finds a slot to say so. Nobody waits for that.
  void tell(const SlotRequestBody& request) { tidings_.push_back(request); }
  // Posts what waits, in order, as far as it goes.
  void post_waiting();
  // Any thread. There is something for post_waiting().
  [[nodiscard]] bool anything_waits() const { return waiting_count_.load(std::memory_order_relaxed) != 0; }
  // An operation waits, and argument memory grows.
  [[nodiscard]] bool waits_for_growth() const { return !waiting_.empty() && arguments_.growing(); }

  // A service process is about to hear of the group.
  void use(const Group& group);
  // Everything on it is done. What it has in the segment comes back once the service processes have forgotten it.
  void retire(const Group& group);
  // For the members of a new group; nothing: there is no room at present.
  [[nodiscard]] std::optional<MemoryRange> allocate_members(std::uint64_t bytes);
  // For a new group.
  [[nodiscard]] PlanNumber take_plan();

  // True: it is done, and its result has been read.
  bool collect_if_done(PendingOperation& operation);
  // The same of a kept operation that is filled: it is left as it is but for its result.
  bool collect_if_filled(PendingOperation& operation);
  // Kept operations that were dropped and are done by now. To be destroyed without the lock: groups take it.
  [[nodiscard]] std::vector<std::unique_ptr<PendingOperation>> take_read();
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }
  // Takes back slots and records that are done, whether or not somebody polls them: a program may wait for its last
  // operation first. True when there was any.
  bool reap();
  // The owner lets go of it. Taken over if the service process still uses it.
  void drop(std::unique_ptr<PendingOperation>& operation);
  // At the end. What has been dropped without being done, to be destroyed without the lock: groups take it.
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
  static constexpr std::size_t kMostSpare = 64;  // kept for the next posts; more are given back

  [[nodiscard]] bool post_or_keep(PendingOperation& operation, SlotRequestBody& body,
                                  const OperationArguments& arguments);
  // Puts the request into a slot, or an overflow record. False: no argument memory at present; no slot of a DPU's.
  [[nodiscard]] bool place(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments);
  [[nodiscard]] std::optional<MemoryRange> copy_arguments(SlotRequestBody& body, const OperationArguments& arguments);
  [[nodiscard]] std::optional<MemoryRange> allocate_arguments(std::uint64_t bytes);
  [[nodiscard]] std::optional<MemoryRange> reap_and_allocate(std::uint64_t bytes, bool may_grow);
  void reject(PendingOperation& operation);
  [[nodiscard]] bool nothing_can_be_placed() const { return arguments_.cannot_grow() && placed_ == 0; }
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
  std::size_t placed_ = 0;  // operations in slots and records
  std::deque<PendingOperation*> waiting_;
  std::deque<SlotRequestBody> tidings_;
  std::atomic<std::size_t> waiting_count_{0};  // of both
  std::uint32_t reaped_completions_ = 0;       // header_.completions when all slots were looked at last ...
  std::uint32_t looked_completions_ = 0;       // ... and when those of kept_ were
  std::vector<std::unique_ptr<PendingOperation>> spare_;
  std::vector<std::unique_ptr<PendingOperation>> abandoned_;
  std::vector<std::unique_ptr<PendingOperation>> kept_;  // dropped when they were filled, the oldest first
};

}  // namespace outrigger::client
