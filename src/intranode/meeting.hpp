// The parts of a team's algorithms: steps, which all members count alike, slots and waiting.
//
// An operation takes one or more steps. In a step a member may fill the slot whose turn it is. It raises the flag whose
// turn it is to the step's number; others wait for that, read, and raise `left`. A turn comes again k steps later:
// kSlots for slots, kArrivals for flags and what is beside them. So the owner first waits until the members have left
// the step before. Flags only grow. A member may pass over a step if no other waits for it there.
//
//     owner                                  reader
//     wait: left of all >= s - k
//     fill slot s mod k
//     arrived (s mod kArrivals) = s ----->   wait: arrived (s mod kArrivals) of the owner >= s
//                                            read the slot
//     (before step s + k)  <--------------   left = s
//
// A member that has arrived in step s has left all steps before the operation that s belongs to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "intranode/call_word.hpp"
#include "intranode/control_area.hpp"
#include "intranode/slot_writer.hpp"
#include "intranode/waiter.hpp"

namespace outrigger::intranode {

class Meeting {
  using Site = steps::Site;
  using Calls = std::array<CallWord, std::tuple_size_v<LastCalls>>;

 public:
  Meeting(const ControlArea& area, std::uint32_t rank, Waiter& waiter)
      : members_(&area.member(0)), own_(&area.member(rank)), rank_(rank), size_(area.members()), waiter_(&waiter) {}

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  // The member `distance` after this one, in a circle.
  [[nodiscard]] std::uint32_t after(std::uint32_t distance) const {
    const std::uint32_t member = rank_ + distance;
    return member < size_ ? member : member - size_;
  }

  // The call that the next operation is: all members must say the same. Without it, calls are not compared.
  void is_for(CallWord call) { next_call_ = call; }
  // The next operation, of one step until extend(). Returns that step's number.
  std::uint64_t begin() {
    first_ = last_ + 1;
    turn_ = (turn_ + 1) % calls_.size();
    calls_[turn_] = next_call_.tagged(first_);
    next_call_ = CallWord();
    return last_ = first_;
  }
  // The operation has `steps` more; all members say the same.
  void extend(std::uint64_t steps) { last_ += steps; }
  // The operation's steps are over for this member: it reads nothing of others any more.
  void end(Site site = Site::current()) { leave(last_, site); }

  [[nodiscard]] MemberArea& member(std::uint32_t rank) const { return members_[rank]; }
  // Where a member puts its `bytes` of a step, as its readers know.
  [[nodiscard]] std::byte* slot(std::uint32_t rank, std::uint64_t step, std::size_t bytes) const {
    return bytes <= kLittleBytes ? arrival(rank, step).little.data() : members_[rank].slots[step % kSlots].data();
  }
  [[nodiscard]] std::byte* own_slot(std::uint64_t step, std::size_t bytes) {
    if (bytes > kLittleBytes) filled_ = step;
    return slot(rank_, step, bytes);
  }
  // The same for kShortBytes at most, where all members know that they go there: in parts of slots, with as many turns
  // as flags have.
  [[nodiscard]] std::byte* short_slot(std::uint32_t rank, std::uint64_t step, std::size_t bytes) const {
    if (bytes <= kLittleBytes) return slot(rank, step, bytes);
    return members_[rank].slots[step % kSlots].data() + step % kArrivals / kSlots * kShortBytes;
  }
  void copy_in(std::byte* own_slot, std::span<const std::byte> from) { writer_.copy(own_slot, from); }
  // A word that goes with a step, whatever is in its slot; `which`: 0 or 1.
  void set_word(std::uint64_t step, std::uint64_t value, std::size_t which = 0) {
    std::byte* word = own_slot(step, sizeof value) + which * sizeof value;
    steps::writes(word, sizeof value);
    std::memcpy(word, &value, sizeof value);
  }
  [[nodiscard]] std::uint64_t word(std::uint32_t other, std::uint64_t step, std::size_t which = 0) const {
    std::uint64_t value = 0;
    const std::byte* word = slot(other, step, sizeof value) + which * sizeof value;
    steps::reads(word, sizeof value);
    std::memcpy(&value, word, sizeof value);
    return value;
  }

  void arrive(std::uint64_t step, Site site = Site::current()) {
    tell_calls(step);
    if (steps::keeps(site)) Waiter::raise(arrival(rank_, step).flag, step);
  }
  // Without wait_slot(). A member that still reads what was there also reads the call that it belongs to.
  void arrive_without_slot(std::uint64_t step, Site site = Site::current()) {
    if (all_gone_ + kArrivals >= step || all_are_gone(step - kArrivals)) tell_calls(step);
    if (steps::keeps(site)) Waiter::raise(arrival(rank_, step).flag, step);
  }
  void leave(std::uint64_t step, Site site = Site::current()) {
    steps::tell(own_->left_in[turn_], call().word());
    if (steps::keeps(site)) Waiter::raise(own_->left, step);
  }

  [[nodiscard]] bool wait_arrived(std::uint32_t other, std::uint64_t step, Site site = Site::current()) {
    if (!steps::keeps(site)) return true;
    Arrival& theirs = arrival(other, step);
    if (waiter_->wait(theirs.flag, step, other) == 0) return false;
    // The next one is in the other's cache if that is ahead.
    __builtin_prefetch(&arrival(other, step + 1));
    if (gone_[other] < first_ - 1) gone_[other] = first_ - 1;
    return step != first_ || agrees(other, theirs.calls);
  }
  // The same where the first step of the operation was not waited for.
  [[nodiscard]] bool wait_answer(std::uint32_t other, std::uint64_t step, Site site = Site::current()) {
    return wait_arrived(other, step, site) && agrees(other, arrival(other, step).calls);
  }
  // Does wait_arrived() not wait?
  [[nodiscard]] bool has_arrived(std::uint32_t other, std::uint64_t step) const {
    return steps::told(arrival(other, step).flag.value) >= step;
  }
  // Waits for a flag that `whose` raises. False: the wait has been ended.
  [[nodiscard]] bool wait_for(Flag& flag, std::uint64_t value, std::uint32_t whose, Site site = Site::current()) {
    return !steps::keeps(site) || waiter_->wait(flag, value, whose) != 0;
  }
  // The same where the member may be writing into this one's memory.
  [[nodiscard]] bool wait_written(Flag& flag, std::uint64_t value, std::uint32_t whose, Site site = Site::current()) {
    return !steps::keeps(site) || waiter_->wait(flag, value, whose, true) != 0;
  }
  // May a member work for another, which then waits for it?
  [[nodiscard]] bool has_own_core() const { return !waiter_->policy().shares_core; }
  // Waits for each of the others, from the next one on, and calls `read(other)` once it has arrived.
  template <class Read>
  [[nodiscard]] bool wait_each_arrived(std::uint64_t step, const Read& read, Site site = Site::current()) {
    for (std::uint32_t distance = 1; distance < size_; ++distance) {
      const std::uint32_t other = after(distance);
      if (!wait_arrived(other, step, site)) return false;
      read(other);
    }
    if (all_gone_ < first_ - 1) all_gone_ = first_ - 1;
    return true;
  }
  [[nodiscard]] bool wait_all_arrived(std::uint64_t step, Site site = Site::current()) {
    return wait_each_arrived(
        step, [](std::uint32_t /*other*/) {}, site);
  }
  [[nodiscard]] bool wait_left(std::uint32_t other, std::uint64_t step, Site site = Site::current()) {
    if (gone_[other] >= step || !steps::keeps(site)) return true;
    MemberArea& area = members_[other];
    const std::uint64_t seen = waiter_->wait(area.left, step, other);
    if (seen == 0) return false;
    gone_[other] = seen;
    return agrees(other, area.left_in);
  }
  [[nodiscard]] bool wait_all_left(std::uint64_t step, Site site = Site::current()) {
    std::uint64_t least = UINT64_MAX;
    for (std::uint32_t distance = 1; distance < size_; ++distance) {
      const std::uint32_t other = after(distance);
      if (!wait_left(other, step, site)) return false;
      if (gone_[other] < least) least = gone_[other];
    }
    if (all_gone_ < least) all_gone_ = least;
    return true;
  }

  // All have arrived in a step without readers.
  void all_left(std::uint64_t step) {
    for (std::uint32_t other = 0; other < size_; ++other) gone_[other] = step;
    all_gone_ = step;
  }

  // All have arrived in the operation, as members that have waited for them told.
  void all_arrived() {
    for (std::uint32_t other = 0; other < size_; ++other) gone_[other] = std::max(gone_[other], first_ - 1);
    all_gone_ = std::max(all_gone_, first_ - 1);
  }

  // Waits until this member may put `bytes`, by default few, where they are in `step`, if all the others read them in
  // this operation ...
  [[nodiscard]] bool wait_slot(std::uint64_t step, std::size_t bytes = kLittleBytes, Site site = Site::current()) {
    return step <= all_gone_ + turns_of(bytes) || wait_all_left(catches_up_to(step, bytes), site);
  }
  // ... or `reader` alone.
  [[nodiscard]] bool wait_slot_for(std::uint32_t reader, std::uint64_t step, std::size_t bytes,
                                   Site site = Site::current()) {
    if (step <= all_gone_ + turns_of(bytes)) return true;
    const std::uint64_t left = catches_up_to(step, bytes);
    return wait_all_left(std::min(left, first_ - 1), site) && (reader == rank_ || wait_left(reader, left, site));
  }
  // Until it may put `bytes` into its short_slot().
  [[nodiscard]] bool wait_short_slot(std::uint64_t step, std::size_t bytes, Site site = Site::current()) {
    if (bytes > kLittleBytes && filled_ > all_gone_ && !wait_all_left(filled_, site)) return false;
    return wait_slot(step, kLittleBytes, site);
  }

  // The operation in progress, or the last one.
  [[nodiscard]] CallWord call() const { return calls_[turn_]; }
  // Two ends of a block must say the same length. A short block of a member for itself is accepted, as MPIs do ...
  [[nodiscard]] bool fits(std::uint32_t other, std::uint64_t given, std::uint64_t room) {
    return (other == rank_ && given < room) || matches(other, given, room);
  }
  // ... unless others get it, too.
  [[nodiscard]] bool matches_own(std::uint64_t given, std::uint64_t room) { return matches(rank_, given, room); }
  // A member that has arrived in the first step has said these bytes of its own: call().
  [[nodiscard]] bool says_bytes(std::uint32_t other, std::uint32_t root, std::uint64_t bytes) {
    const CallWord theirs(steps::told(arrival(other, first_).calls[turn_]));
    if (theirs.ahead_of(call()) != 0 || theirs.has_bytes(bytes)) return true;
    difference_ = Difference{.other = other, .mine = CallWord(CollectiveCall::gatherv, root, bytes), .theirs = theirs};
    return false;
  }
  // The longest block of the last operation whose lengths members told each other, as all of them know it.
  void saw_longest(std::uint64_t bytes) { longest_ = bytes; }
  [[nodiscard]] std::uint64_t longest() const { return longest_; }
  // Why an operation has ended, if calls differ.
  [[nodiscard]] const std::optional<Difference>& difference() const { return difference_; }

 private:
  [[nodiscard]] Arrival& arrival(std::uint32_t rank, std::uint64_t step) const {
    return members_[rank].arrivals[step % kArrivals];
  }
  // Steps until a place for `bytes` has its turn again.
  [[nodiscard]] static std::uint64_t turns_of(std::size_t bytes) { return bytes <= kLittleBytes ? kArrivals : kSlots; }
  // The step that others must have left before a member that is too far ahead goes on. It lets them catch up by half of
  // the short steps: so it looks at their flags once for many.
  [[nodiscard]] static std::uint64_t catches_up_to(std::uint64_t step, std::size_t bytes) {
    return step - (bytes <= kLittleBytes ? kArrivals / 2 : kSlots);
  }
  void tell_calls(std::uint64_t step) {
    Arrival& own = arrival(rank_, step);
    for (std::size_t turn = 0; turn < calls_.size(); ++turn) steps::tell(own.calls[turn], calls_[turn].word());
  }
  [[nodiscard]] bool all_are_gone(std::uint64_t step) const {
    for (std::uint32_t other = 0; other < size_; ++other) {
      if (other != rank_ && gone_[other] < step) return false;
    }
    return true;
  }
  [[nodiscard]] bool matches(std::uint32_t other, std::uint64_t given, std::uint64_t room) {
    if (given == room) [[likely]]
      return true;
    difference_ = Difference{other, call(), call(), true, given, room};
    return false;
  }
  // Members that are further on have later calls there, and those that pass an operation over earlier ones.
  [[nodiscard]] bool agrees(std::uint32_t other, const LastCalls& told) {
    Calls theirs;
    bool clear = true;
    for (std::size_t turn = 0; turn < theirs.size(); ++turn) {
      theirs[turn] = CallWord(steps::told(told[turn]));
      clear = clear && (theirs[turn].word() == calls_[turn].word() || theirs[turn].ahead_of(call()) > 0);
    }
    return clear || agree(other, theirs);
  }
  [[nodiscard, gnu::noinline]] bool agree(std::uint32_t other, const Calls& theirs) {
    for (const CallWord& mine : calls_) {
      for (const CallWord& one : theirs) {
        if (one.ahead_of(mine) != 0 || !mine.is_compared() || !one.is_compared() || mine.is_same_call(one)) continue;
        difference_ = Difference{.other = other, .mine = mine, .theirs = one};
        return false;
      }
    }
    return true;
  }

  MemberArea* members_;
  MemberArea* own_;
  std::uint32_t rank_;
  std::uint32_t size_;
  Waiter* waiter_;
  SlotWriter writer_;
  std::uint64_t first_ = 0;  // step of the operation in progress, or of the last one
  std::uint64_t last_ = 0;
  CallWord next_call_;
  Calls calls_;           // of the last operations, with their first steps
  std::size_t turn_ = 0;  // the last one's
  std::uint64_t longest_ = 0;
  std::uint64_t filled_ = 0;  // the last step in which this member has filled a whole slot
  std::optional<Difference> difference_;
  std::uint64_t all_gone_ = 0;                      // the last step that all others are known to have left
  std::array<std::uint64_t, kMostMembers> gone_{};  // ... and that each has
};

}  // namespace outrigger::intranode
