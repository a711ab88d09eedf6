// A communicator that operations are posted on. Immutable but for the note that it was used, where it is listed, and
// its course.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/memory/range_allocator.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/segment.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::client {

class Group;
class PendingOperation;

// The endpoint that groups and operations belong to. It outlives them as a shell.
class GroupOwner {
 public:
  GroupOwner() = default;
  GroupOwner(const GroupOwner&) = delete;
  GroupOwner& operator=(const GroupOwner&) = delete;
  virtual ~GroupOwner() = default;
  // The last pointer to the group has gone: gives the members' memory back and has the service processes forget it.
  virtual void retire_group(const Group& group) noexcept = 0;
  // The caller has no further use for the operation.
  virtual void drop(std::unique_ptr<PendingOperation> operation) noexcept = 0;
};

// A course as it was found last, so that it need not be read again for each call.
struct PlanInForce {
  std::uint32_t changes = 0;
  steer::PlanChange plan;
};

class Group {
 public:
  // `members`: std::uint32_t[size] in argument memory of `owner`; `course`: in its segment, if it has one.
  Group(std::shared_ptr<GroupOwner> owner, GroupId id, std::uint32_t size, GroupRank me, MemoryRange members,
        PlanNumber course)
      : owner_(std::move(owner)), id_(id), size_(size), me_(me), members_(members), course_(course) {}
  // Any thread, also after the client.
  ~Group() { owner_->retire_group(*this); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] GroupOwner& owner() const { return *owner_; }
  [[nodiscard]] const GroupId& id() const { return id_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] GroupRank me() const { return me_; }
  [[nodiscard]] const MemoryRange& members() const { return members_; }
  [[nodiscard]] PlanNumber course() const { return course_; }
  // Calls on a group without a course, which this rank may have no entry for and others may: they count them there.
  void count_call() const { calls_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t counted_calls() const { return calls_.load(std::memory_order_relaxed); }
  // Of one call at a time.
  [[nodiscard]] PlanInForce& in_force() const { return in_force_; }
  // Did the service process ever hear of it?
  [[nodiscard]] bool used() const { return used_.load(std::memory_order_relaxed); }
  void mark_used() const { used_.store(true, std::memory_order_relaxed); }
  // Of a group that is used: its entry in the segment; kGroupEntries: it has none. Under the owner's lock.
  [[nodiscard]] std::uint32_t listed_at() const { return listed_at_; }
  void list_at(std::uint32_t entry) const { listed_at_ = entry; }

 private:
  std::shared_ptr<GroupOwner> owner_;
  GroupId id_;
  std::uint32_t size_;
  GroupRank me_;
  MemoryRange members_;
  PlanNumber course_;
  mutable std::atomic<bool> used_{false};
  mutable std::atomic<std::uint64_t> calls_{0};
  mutable std::uint32_t listed_at_ = kGroupEntries;
  mutable PlanInForce in_force_;
};

}  // namespace outrigger::client
