// Waits of algorithms in two levels.
#pragma once

#include <cstdint>

#include "intranode/branches.hpp"
#include "intranode/meeting.hpp"

namespace outrigger::intranode {

// A leader waits for the others of its branch, and calls `read(member)` once each has arrived.
template <class Read>
[[nodiscard]] bool wait_branch(Meeting& meeting, const Branches& branches, std::uint64_t step, const Read& read,
                               steps::Site site = steps::Site::current()) {
  for (const std::uint32_t member : branches.members(branches.of(meeting.rank()))) {
    if (member == meeting.rank()) continue;
    if (!meeting.wait_arrived(member, step, site)) return false;
    read(member);
  }
  return true;
}

// A leader waits for the others, and calls `read(leader)` once each has arrived.
template <class Read>
[[nodiscard]] bool wait_leaders(Meeting& meeting, const Branches& branches, std::uint64_t step, const Read& read,
                                steps::Site site = steps::Site::current()) {
  const std::uint32_t own = branches.of(meeting.rank());
  for (std::uint32_t branch = 0; branch < branches.count(); ++branch) {
    if (branch == own) continue;
    const std::uint32_t leader = branches.leader(branch);
    if (!meeting.wait_arrived(leader, step, site)) return false;
    read(leader);
  }
  return true;
}

}  // namespace outrigger::intranode
