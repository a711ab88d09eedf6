// branches: leaders collect the blocks of their branches in one slot, exchange them, and give all of them to their
// members.
//
// Source: the gather and release steps of MPICH's release-gather ("Framework for Scalable Intra-node Collective
// Operations using Shared Memory", Jain et al., SC 2018), with the levels of Open MPI's coll/xhc.
//
// Source and code (-: ours):
//     a member copies its block into its cell             | `put`
//     its leader collects the blocks of the branch        | `wait_branch`
//     leaders exchange them                               | `wait_leaders`
//     - each leader is the root: nothing goes back        | `wait_leaders`
//     the members copy all blocks out                     | `wait_answer`, `copy_out`
//
// Picture (branches 0 1 and 2 3, steps s and s+1):
//
//     slot s of 1: | 1 | ──▶ slot s of 0: | 0 1 | ──▶ 2, and slot s+1 of 0: | 0 1 2 3 | ──▶ 1
//     slot s of 3: | 3 | ──▶ slot s of 2: | 2 3 | ──▶ 0, and slot s+1 of 2: | 0 1 2 3 | ──▶ 3
//
// Team of p in branches of g, blocks of n:
//     cost    a leader loads the lines of g - 1 + p / g - 1 slots, the others the n p bytes of one; three cache misses
//             one after the other. allgather_slots.cpp loads p - 1 slots, after one
//     bounds  n p up to kShortBytes; blocks of any lengths
#include "intranode/algorithms.hpp"
#include "intranode/branches.hpp"
#include "intranode/slot_copies.hpp"
#include "intranode/tree_steps.hpp"

namespace outrigger::intranode {
namespace {

// Where blocks are in slots: those of a leader's branch, or all, one after the other.
class Rows {
 public:
  Rows(Meeting& meeting, const Branches& branches, const Blocks& into)
      : meeting_(meeting), branches_(branches), into_(into) {
    for (std::uint32_t member = 0; member < meeting.size(); ++member) total_ += into.of(member).size();
  }
  [[nodiscard]] std::byte* at(std::uint32_t member, std::uint64_t step) const {
    return meeting_.short_slot(member, step, total_);
  }
  [[nodiscard]] bool wait(std::uint64_t step, steps::Site site = steps::Site::current()) {
    return meeting_.wait_short_slot(step, total_, site);
  }
  void put(std::uint64_t step, std::span<const std::byte> mine) { meeting_.copy_in(at(meeting_.rank(), step), mine); }
  // From `into` to this leader's slot.
  void put_branch(std::uint64_t step) {
    std::byte* slot = at(meeting_.rank(), step);
    for (const std::uint32_t member : branches_.members(branches_.of(meeting_.rank()))) slot = put(slot, member);
  }
  void put_all(std::uint64_t step) {
    std::byte* slot = at(meeting_.rank(), step);
    for (std::uint32_t member = 0; member < meeting_.size(); ++member) slot = put(slot, member);
  }
  // To `into`.
  void take(std::uint32_t member, std::uint64_t step) const { copy_out(into_.of(member), at(member, step)); }
  void take_branch(std::uint32_t leader, std::uint64_t step) const {
    const std::byte* slot = at(leader, step);
    for (const std::uint32_t member : branches_.members(branches_.of(leader))) slot = take(slot, member);
  }
  void take_all(std::uint32_t leader, std::uint64_t step) const {
    const std::byte* slot = at(leader, step);
    for (std::uint32_t member = 0; member < meeting_.size(); ++member) slot = take(slot, member);
  }

 private:
  [[nodiscard]] std::byte* put(std::byte* slot, std::uint32_t member) {
    meeting_.copy_in(slot, into_.of(member));
    return slot + into_.of(member).size();
  }
  [[nodiscard]] const std::byte* take(const std::byte* slot, std::uint32_t member) const {
    copy_out(into_.of(member), slot);
    return slot + into_.of(member).size();
  }

  Meeting& meeting_;
  const Branches& branches_;
  const Blocks& into_;
  std::size_t total_ = 0;
};

}  // namespace

Outcome allgather_branches(Meeting& meeting, const Branches& branches, std::span<const std::byte> mine,
                           const Blocks& into) {
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  const std::span<std::byte> own = into.of(meeting.rank());
  if (!meeting.matches_own(mine.size(), own.size())) return Outcome::ended;
  Rows rows(meeting, branches, into);
  const std::uint32_t leader = branches.leader(branches.of(meeting.rank()));
  if (!rows.wait(step)) return Outcome::ended;
  if (meeting.rank() != leader) {
    rows.put(step, mine);
    meeting.arrive(step);
    if (!meeting.wait_answer(leader, step + 1)) return Outcome::ended;
    meeting.all_arrived();
    rows.take_all(leader, step + 1);
  } else {
    const auto take = [&](std::uint32_t member) { rows.take(member, step); };
    const auto take_branch = [&](std::uint32_t other) { rows.take_branch(other, step); };
    copy_own(own, mine);
    if (!wait_branch(meeting, branches, step, take)) return Outcome::ended;
    rows.put_branch(step);
    meeting.arrive(step);
    if (!wait_leaders(meeting, branches, step, take_branch)) return Outcome::ended;
    // So they have read what was in the next step's place.
    meeting.all_arrived();
    rows.put_all(step + 1);
    meeting.arrive(step + 1);
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
