// Direct copies add to the steps of a meeting: members publish addresses in their slots, and say whether they could
// copy. Members that could not copy get their blocks by slots.
#pragma once

#include <cstdint>
#include <cstring>

#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/peer_memory.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {

[[nodiscard]] inline std::uint64_t address_of(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

// The addresses of this member's blocks, one for each member.
inline void publish(Meeting& meeting, std::uint64_t step, const Blocks& blocks) {
  const std::size_t bytes = meeting.size() * sizeof(std::uint64_t);
  std::byte* slot = meeting.own_slot(step, bytes);
  steps::writes(slot, bytes);
  for (std::uint32_t member = 0; member < meeting.size(); ++member) {
    const std::uint64_t address = address_of(blocks.of(member).data());
    std::memcpy(slot + member * sizeof address, &address, sizeof address);
  }
}
// The address of the owner's block for this member.
[[nodiscard]] inline std::uint64_t published(const Meeting& meeting, std::uint32_t owner, std::uint64_t step) {
  std::uint64_t address = 0;
  const std::byte* slot = meeting.slot(owner, step, meeting.size() * sizeof address);
  const std::byte* own = slot + meeting.rank() * sizeof address;
  steps::reads(own, sizeof address);
  std::memcpy(&address, own, sizeof address);
  return address;
}

// The last step of an operation that all members end together. No member reads another's memory after it. `all` is then
// true if all members said true.
[[nodiscard]] inline Outcome end_together(Meeting& meeting, std::uint64_t step, bool& all) {
  meeting.set_word(step, all ? 1 : 0);
  meeting.arrive(step);
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    if (!meeting.wait_arrived(other, step)) return Outcome::ended;
    all = meeting.word(other, step) == 1 && all;
  }
  meeting.end();
  return Outcome::done;
}

// For the root of an operation in which each other member copies its block and then arrives: waits for them all.
// `failed(member)` is called for those that could not copy.
template <class Failed>
[[nodiscard]] Outcome wait_for_copies(Meeting& meeting, std::uint64_t step, const Failed& failed) {
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    if (!meeting.wait_arrived(other, step)) return Outcome::ended;
    if (meeting.word(other, step) == 0) failed(other);
  }
  return Outcome::done;
}

// An operation of so many steps in which this member neither writes nor reads.
inline Outcome pass_over(Meeting& meeting, std::uint64_t steps) {
  meeting.begin();
  meeting.extend(steps - 1);
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
