// The groups of this rank as they stand in its segment (protocol/shared/segment.hpp), for a service process that takes
// the place of another.
//
// Under the lock.
#pragma once

#include <cstdint>
#include <deque>

#include "client/operations/client_group.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class GroupEntries {
 public:
  explicit GroupEntries(SegmentView segment) : segment_(segment) {}

  // Before the first request that names the group. Once.
  void enter(const Group& group);
  // An operation on it is done; its slot or record is given back after this.
  void note_done(const Group& group, std::uint64_t sequence);
  // It has been freed, and everything on it is done.
  void retire(const Group& group);

 private:
  // Freed groups that are remembered before an entry is used again.
  static constexpr std::size_t kRemembered = 1024;

  // kGroupEntries: there is none.
  [[nodiscard]] std::uint32_t take();

  SegmentView segment_;
  std::uint32_t used_ = 0;           // entries below have been used
  std::deque<std::uint32_t> freed_;  // the oldest first
};

}  // namespace outrigger::client
