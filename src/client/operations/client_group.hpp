// A communicator that operations are posted on. Immutable but for the note that it was used and where it is listed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/memory/range_allocator.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/segment.hpp"
#include "steer/rank/dispatch_port.hpp"

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
  // As steer::DispatchPort says.
  virtual void send(const Group& group, const steer::Notice& notice) noexcept = 0;
  [[nodiscard]] virtual bool job_ended() noexcept = 0;
};

class Group final : public steer::DispatchPort {
 public:
  struct Plan {
    PlanNumber number;                  // of the entry in the segment, if there is one
    steer::PlanEntry* entry = nullptr;  // that entry
  };
  // `members`: std::uint32_t[size] in argument memory of `owner`. `inert`: the owner's.
  Group(std::shared_ptr<GroupOwner> owner, GroupId id, std::uint32_t size, GroupRank me, MemoryRange members,
        const std::atomic<bool>& inert, Plan plan)
      : DispatchPort(inert, plan.entry),
        owner_(std::move(owner)),
        id_(id),
        size_(size),
        me_(me),
        members_(members),
        plan_(plan.number) {}
  // Any thread, also after the client.
  ~Group() { owner_->retire_group(*this); }

  void send(const steer::Notice& notice) const noexcept override { owner_->send(*this, notice); }
  [[nodiscard]] bool job_ended() const noexcept override { return owner_->job_ended(); }

  [[nodiscard]] GroupOwner& owner() const { return *owner_; }
  [[nodiscard]] const GroupId& id() const { return id_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] GroupRank me() const { return me_; }
  [[nodiscard]] const MemoryRange& members() const { return members_; }
  [[nodiscard]] PlanNumber plan() const { return plan_; }
  // True if the service process has received the group.
  [[nodiscard]] bool used() const { return used_.load(std::memory_order_relaxed); }
  void mark_used() const { used_.store(true, std::memory_order_relaxed); }
  // The entry of a used group in the segment; kGroupEntries if it has none. Under the owner's lock.
  [[nodiscard]] std::uint32_t listed_at() const { return listed_at_; }
  void list_at(std::uint32_t entry) const { listed_at_ = entry; }

 private:
  std::shared_ptr<GroupOwner> owner_;
  GroupId id_;
  std::uint32_t size_;
  GroupRank me_;
  MemoryRange members_;
  PlanNumber plan_;
  mutable std::atomic<bool> used_{false};
  mutable std::uint32_t listed_at_ = kGroupEntries;
};

}  // namespace outrigger::client
