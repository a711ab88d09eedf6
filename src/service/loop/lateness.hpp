// Late arrivals: how long after the first rank of the group each local rank posts an operation. Times are of this
// service process's clock, when it takes a local post or receives an announcement. So clocks of other machines do not
// matter, and a message's travel time counts for the later one.
//
// Nothing is kept until a rank that wants times has posted (kSlotTimed).
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "protocol/ids.hpp"

namespace outrigger::service {

class Lateness {
 public:
  // per group: a rank that is further behind counts as in time
  static constexpr std::size_t kOperationsOfAGroup = 64;
  // ranks of further groups count as in time
  static constexpr std::size_t kMostGroups = 1024;

  // A local rank has posted. Returns the nanoseconds after the first.
  [[nodiscard]] std::uint64_t posted(const OperationId& id, std::int64_t now_ns);
  // A remote rank has announced it.
  void announced(const OperationId& id, std::int64_t now_ns);
  void forget(GroupId group) { groups_.erase(group); }
  // True if announcements matter.
  [[nodiscard]] bool listens() const { return !groups_.empty(); }

 private:
  struct First {
    std::uint64_t sequence_and_one = 0;  // 0: none yet
    std::int64_t at_ns = 0;
  };
  using Group = std::array<First, kOperationsOfAGroup>;
  // Time of the first post; `now_ns` if this is the first, or the entry has been reused.
  [[nodiscard]] static std::int64_t first(Group& group, std::uint64_t sequence, std::int64_t now_ns);

  std::unordered_map<GroupId, Group> groups_;
};

}  // namespace outrigger::service
