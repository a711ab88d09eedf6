// Direct copies add to the steps of a meeting: members publish addresses in their slots, and say whether they could
// copy. Members that could not copy get their blocks by slots.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/peer_memory.hpp"
#include "intranode/shared_copy.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {

[[nodiscard]] inline std::uint64_t address_of(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

// The addresses of this member's blocks, one for each member. False: the wait has been ended.
[[nodiscard]] inline bool publish(Meeting& meeting, std::uint64_t step, const Blocks& blocks) {
  const std::size_t bytes = meeting.size() * sizeof(std::uint64_t);
  if (!meeting.wait_slot(step, bytes)) return false;
  std::byte* slot = meeting.own_slot(step, bytes);
  steps::writes(slot, bytes);
  for (std::uint32_t member = 0; member < meeting.size(); ++member) {
    const std::uint64_t address = address_of(blocks.of(member).data());
    std::memcpy(slot + member * sizeof address, &address, sizeof address);
  }
  return true;
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

// The root's copies with the others in one step.
class RootCopies {
 public:
  RootCopies(Meeting& meeting, std::uint64_t step) : meeting_(&meeting), step_(step) {}
  [[nodiscard]] std::optional<SharedCopy>& with(std::uint32_t other) { return copies_[other]; }

  // A piece with each in turn, so that all end at about the same time; at last with those that come late.
  // `copy_piece(other)`: false if nothing is left.
  template <class CopyPiece>
  [[nodiscard]] Outcome make(const CopyPiece& copy_piece) {
    for (bool found = true; found;) {
      found = false;
      for (std::uint32_t distance = 1; distance < meeting_->size(); ++distance) {
        const std::uint32_t other = meeting_->after(distance);
        if (!copies_[other] || !meeting_->has_arrived(other, step_)) continue;
        if (!meets(other)) return Outcome::ended;
        found = copy_piece(other) || found;
      }
    }
    for (std::uint32_t distance = 1; distance < meeting_->size(); ++distance) {
      const std::uint32_t other = meeting_->after(distance);
      if (!copies_[other]) continue;
      if (!meets(other)) return Outcome::ended;
      while (copy_piece(other)) continue;
    }
    return Outcome::done;
  }

 private:
  [[nodiscard]] bool meets(std::uint32_t other) {
    return meeting_->wait_arrived(other, step_) && copies_[other]->fits();
  }

  Meeting* meeting_;
  std::uint64_t step_;
  std::array<std::optional<SharedCopy>, kMostMembers> copies_;
};

// The root's part of an operation in which each other member gets block_of(it). `failed(member)` is called for those
// that did not.
template <class BlockOf, class Failed>
[[nodiscard]] Outcome lend_blocks(Meeting& meeting, PeerMemory& memory, std::uint64_t step, const BlockOf& block_of,
                                  const Failed& failed) {
  RootCopies copies(meeting, step);
  for (std::uint32_t other = 0; other < meeting.size(); ++other) {
    const std::uint64_t bytes = block_of(other).size();
    if (other != meeting.rank() && bytes != 0) copies.with(other).emplace(meeting, other, meeting.rank(), step, bytes);
  }
  const Outcome made = copies.make([&](std::uint32_t other) {
    if (copies.with(other)->write_piece(memory, block_of(other), meeting.word(other, step))) return true;
    copies.with(other)->end_writing();
    return false;
  });
  if (made != Outcome::done) {
    for (std::uint32_t other = 0; other < meeting.size(); ++other) {
      if (copies.with(other)) copies.with(other)->end_writing();
    }
    return made;
  }
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    bool complete = true;
    if (copies.with(other) && copies.with(other)->wait_owned(complete) != Outcome::done) return Outcome::ended;
    if (!complete) failed(other);
  }
  return Outcome::done;
}

// The other members' part: `mine`, not empty, from the root's memory at address().
template <class Address>
[[nodiscard]] Outcome read_lent(Meeting& meeting, PeerMemory& memory, std::span<std::byte> mine, std::uint32_t root,
                                std::uint64_t step, const Address& address, bool& complete) {
  SharedCopy copy(meeting, meeting.rank(), root, step, mine.size());
  if (!meeting.wait_slot(step)) return Outcome::ended;
  meeting.set_word(step, address_of(mine.data()));
  copy.open();
  meeting.arrive(step);
  if (!meeting.wait_arrived(root, step)) {
    copy.abandon();
    return Outcome::ended;
  }
  const std::uint64_t from = address();
  while (copy.read_piece(memory, from, mine)) continue;
  if (copy.end_reading(complete) != Outcome::done) return Outcome::ended;
  copy.tell_owned(complete);
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
