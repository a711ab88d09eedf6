// Who is waited for: how long after the first rank of the group each local rank posts an operation, by this service
// process's clock. It hears of its own ranks when it takes their posts, of others by their announcements, so that
// clocks of other machines do not matter, and what a message takes on its way counts for the one that comes late.
//
// Nothing is kept until a rank that counts has posted (kSlotTimed).
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
  // Of a group: who is further behind the first is taken to be in time.
  static constexpr std::size_t kOperationsOfAGroup = 64;
  // In further groups everybody is in time.
  static constexpr std::size_t kMostGroups = 1024;

  // A local rank has posted it. How long after the first.
  [[nodiscard]] std::uint64_t posted(const OperationId& id, std::int64_t now_ns);
  // A rank elsewhere has.
  void announced(const OperationId& id, std::int64_t now_ns);
  void forget(GroupId group) { groups_.erase(group); }
  // Whether there is anything to hear of.
  [[nodiscard]] bool listens() const { return !groups_.empty(); }

 private:
  struct First {
    std::uint64_t sequence_and_one = 0;  // 0: none yet
    std::int64_t at_ns = 0;
  };
  using Group = std::array<First, kOperationsOfAGroup>;
  // When the first posted; `now_ns` if that is this one, or too long ago.
  [[nodiscard]] static std::int64_t first(Group& group, std::uint64_t sequence, std::int64_t now_ns);

  std::unordered_map<GroupId, Group> groups_;
};

}  // namespace outrigger::service
