// The parts of a team's algorithms: steps, which all members count alike, slots and waiting.
//
// An operation takes one or more steps. In a step a member may fill its slot whose turn it is and raises `arrived` to
// the step's number; others wait for that, read, and raise `left`. A slot's turn comes again two steps later (kSlots),
// so its owner first waits until the members have left the step before the last. Flags only grow: a step may be passed
// over, and a higher number says all that the lower ones say.
//
//     owner                                  reader
//     wait: left of all >= s - 2
//     fill slot s mod 2
//     arrived = s        ---------------->   wait: arrived of the owner >= s
//                                            read the slot
//     (before step s + 2)  <--------------   left = s
//
// A member that has arrived in step s has left all steps before the operation that s belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "intranode/control_area.hpp"
#include "intranode/slot_writer.hpp"
#include "intranode/waiter.hpp"

namespace outrigger::intranode {

class Meeting {
  using Site = steps::Site;

 public:
  Meeting(const ControlArea& area, std::uint32_t rank, Waiter& waiter)
      : members_(&area.member(0)), rank_(rank), size_(area.members()), waiter_(&waiter) {}

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  // The member `distance` after this one, in a circle.
  [[nodiscard]] std::uint32_t after(std::uint32_t distance) const {
    const std::uint32_t member = rank_ + distance;
    return member < size_ ? member : member - size_;
  }

  // The next operation, of one step until extend(). Returns that step's number.
  std::uint64_t begin() {
    first_ = last_ + 1;
    return last_ = first_;
  }
  // The operation has `steps` more; all members say the same.
  void extend(std::uint64_t steps) { last_ += steps; }
  // The operation's steps are over for this member: it reads nothing of others any more.
  void end(Site site = Site::current()) { leave(last_, site); }

  [[nodiscard]] MemberArea& member(std::uint32_t rank) const { return members_[rank]; }
  // Where a member puts its `bytes` of a step, as its readers know.
  [[nodiscard]] std::byte* slot(std::uint32_t rank, std::uint64_t step, std::size_t bytes) const {
    MemberArea& area = members_[rank];
    return bytes <= kLittleBytes ? area.little[step % kSlots].data() : area.slots[step % kSlots].data();
  }
  [[nodiscard]] std::byte* own_slot(std::uint64_t step, std::size_t bytes) const { return slot(rank_, step, bytes); }
  void copy_in(std::byte* own_slot, std::span<const std::byte> from) { writer_.copy(own_slot, from); }
  // A word that goes with a step, whatever is in its slot.
  void set_word(std::uint64_t step, std::uint64_t value) {
    std::byte* word = own_slot(step, sizeof value);
    steps::writes(word, sizeof value);
    std::memcpy(word, &value, sizeof value);
  }
  [[nodiscard]] std::uint64_t word(std::uint32_t other, std::uint64_t step) const {
    std::uint64_t value = 0;
    const std::byte* word = slot(other, step, sizeof value);
    steps::reads(word, sizeof value);
    std::memcpy(&value, word, sizeof value);
    return value;
  }

  void arrive(std::uint64_t step, Site site = Site::current()) {
    if (steps::keeps(site)) Waiter::raise(member(rank_).arrived, step);
  }
  void leave(std::uint64_t step, Site site = Site::current()) {
    if (steps::keeps(site)) Waiter::raise(member(rank_).left, step);
  }

  [[nodiscard]] bool wait_arrived(std::uint32_t other, std::uint64_t step, Site site = Site::current()) {
    if (!steps::keeps(site)) return true;
    if (!waiter_->wait(members_[other].arrived, step, other)) return false;
    if (gone_[other] < first_ - 1) gone_[other] = first_ - 1;
    return true;
  }
  [[nodiscard]] bool wait_all_arrived(std::uint64_t step, Site site = Site::current()) {
    for (std::uint32_t distance = 1; distance < size_; ++distance) {
      if (!wait_arrived(after(distance), step, site)) return false;
    }
    return true;
  }
  [[nodiscard]] bool wait_left(std::uint32_t other, std::uint64_t step, Site site = Site::current()) {
    if (gone_[other] >= step || !steps::keeps(site)) return true;
    if (!waiter_->wait(members_[other].left, step, other)) return false;
    gone_[other] = step;
    return true;
  }
  [[nodiscard]] bool wait_all_left(std::uint64_t step, Site site = Site::current()) {
    for (std::uint32_t distance = 1; distance < size_; ++distance) {
      if (!wait_left(after(distance), step, site)) return false;
    }
    return true;
  }

  // All have arrived in a step without readers.
  void all_left(std::uint64_t step) { gone_.fill(step); }

  // Waits until this member's slot for `step` may be written, if all the others read it in this operation ...
  [[nodiscard]] bool wait_slot(std::uint64_t step, Site site = Site::current()) {
    return step <= kSlots || wait_all_left(step - kSlots, site);
  }
  // ... or `reader` alone.
  [[nodiscard]] bool wait_slot_for(std::uint32_t reader, std::uint64_t step, Site site = Site::current()) {
    if (step <= kSlots) return true;
    const std::uint64_t before = step - kSlots < first_ ? step - kSlots : first_ - 1;
    return wait_all_left(before, site) && (reader == rank_ || wait_left(reader, step - kSlots, site));
  }

 private:
  MemberArea* members_;
  std::uint32_t rank_;
  std::uint32_t size_;
  Waiter* waiter_;
  SlotWriter writer_;
  std::uint64_t first_ = 0;  // step of the operation in progress, or of the last one
  std::uint64_t last_ = 0;
  std::array<std::uint64_t, kMostMembers> gone_{};  // the last step that each member is known to have left
};

}  // namespace outrigger::intranode
