// Blocking collectives by the ranks of a node through shared memory, without MPI and without a service process.
//
// Every member calls the same operations in the same order, as MPI wants it of the ranks of a communicator, with sizes
// that fit together. Where they do not, members that notice it end with a Difference; others wait until their Waiter
// ends that. No member reads or writes beyond its blocks. All sizes are in bytes. Blocks are contiguous; callers pack
// others. An operation is complete when it returns; buffers are then the caller's again. Members are 0 to size() - 1.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "intranode/branches.hpp"
#include "intranode/call_word.hpp"
#include "intranode/combine.hpp"
#include "intranode/control_area.hpp"
#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/peer_memory.hpp"
#include "intranode/split_sum.hpp"
#include "intranode/waiter.hpp"

namespace outrigger::intranode {

class Team {
 public:
  // `waiter` outlives it.
  Team(ControlArea area, std::uint32_t rank, Waiter& waiter);

  // Short calls are done in two levels from now on. Before open(); all members say the same.
  void divide(const Branches& branches) { tree_.emplace(branches); }
  // Before the first other operation: all members have attached when it returns.
  Outcome open();
  // In place of open(). Long blocks are copied through `memory`, which outlives the team, if all members can copy so.
  // Otherwise, and for copies that fail later, there are slots.
  Outcome open(PeerMemory& memory);
  [[nodiscard]] bool copies_directly() const { return direct_.memory != nullptr; }
  // Blocks from so many bytes on are copied directly, if all members can; `exchanged`: those of an alltoall. All say
  // the same before the same operation.
  void copy_directly_from(std::uint64_t bytes, std::uint64_t exchanged) {
    direct_.from_bytes = bytes;
    exchanged_from_bytes_ = exchanged;
  }
  void copy_directly_from(std::uint64_t bytes) { copy_directly_from(bytes, bytes); }

  [[nodiscard]] std::uint32_t rank() const { return meeting_.rank(); }
  [[nodiscard]] std::uint32_t size() const { return meeting_.size(); }

  // Why the last operation has ended, if the members' calls differ. The team must not be used again.
  [[nodiscard]] const std::optional<Difference>& difference() const { return meeting_.difference(); }

  // The longest block of the last gatherv(), scatterv() or alltoallv(), the same at all members. A member's block for
  // itself may be left out.
  [[nodiscard]] std::uint64_t longest() const { return meeting_.longest(); }

  Outcome barrier();
  // The root's `buffer` to all others. Equally long everywhere.
  Outcome broadcast(std::span<std::byte> buffer, std::uint32_t root);

  // Each member's `mine` to the root's `into`, which the others need not give. `mine` may be the root's own block in
  // place. Equally long everywhere ...
  Outcome gather(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root);
  // ... or not: each member knows its own length, the root all.
  Outcome gatherv(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root);
  // The other way round.
  Outcome scatter(const Blocks& from, std::span<std::byte> mine, std::uint32_t root);
  Outcome scatterv(const Blocks& from, std::span<std::byte> mine, std::uint32_t root);

  // Each member's `mine` to everybody's `into`; all know all lengths, also where they differ. `mine` may be the
  // member's own block in `into`.
  Outcome allgather(std::span<const std::byte> mine, const Blocks& into);
  // Block j of i's `from` to block i of j's `into`. Equally long everywhere ...
  Outcome alltoall(const Blocks& from, const Blocks& into);
  // ... or not: each pair's two ends know its length.
  Outcome alltoallv(const Blocks& from, const Blocks& into);
  // In place: `blocks` is both, and the blocks of a pair are equally long.
  Outcome alltoall_in_place(const Blocks& blocks, bool equal_everywhere);

  // `mine` and `into` are equally long everywhere, whole elements, and either the same or apart; only the root's `into`
  // counts for reduce(). All members combine alike.
  Outcome reduce(std::span<const std::byte> mine, std::byte* into, const Combine& combine, std::uint32_t root);
  Outcome allreduce(std::span<const std::byte> mine, std::byte* into, const Combine& combine);
  // Does every member combine all contributions of an allreduce() of so many bytes by itself? Otherwise a slice.
  [[nodiscard]] bool all_combine_all(std::uint64_t bytes) const;
  // Another reduction, but so: every member combines all contributions.
  Outcome combine_by_all(CollectiveCall call, std::uint32_t root, std::span<const std::byte> mine, std::byte* into,
                         const Combine& combine);
  // `mine` holds a block for each member, in a row; member i gets the result of block i, bytes[i] long. All know all
  // `bytes`. In place: `into` is the start of `mine`.
  Outcome reduce_scatter(const std::byte* mine, std::span<const std::uint64_t> bytes, std::byte* into,
                         const Combine& combine);
  // The same out of and into the others' memory, if copies_directly(). The length of an element divides kPieceUnit.
  Outcome allreduce_directly(std::span<const std::byte> mine, std::byte* into, const Combine& combine);
  Outcome reduce_scatter_directly(const std::byte* mine, std::span<const std::uint64_t> bytes, std::byte* into,
                                  const Combine& combine);
  // Each member's own `combine` takes the contributions of members up to itself, or below it. Member 0 gets nothing of
  // exscan(): its `into` is left as it is, and of its `combine` only the length of elements counts.
  Outcome scan(std::span<const std::byte> mine, std::byte* into, const Combine& combine);
  Outcome exscan(std::span<const std::byte> mine, std::byte* into, const Combine& combine);

 private:
  // Announces the next operation, for comparison with the calls of others. `bytes`: alike everywhere, or 0.
  void says(CollectiveCall call, std::uint32_t root, std::uint64_t bytes) {
    meeting_.is_for(CallWord(call, root, bytes));
  }
  [[nodiscard]] DirectBlocks exchanged() const { return {direct_.memory, exchanged_from_bytes_}; }

  struct Tree {
    explicit Tree(const Branches& given) : branches(given), sums(given) {}
    Branches branches;
    SplitSums sums;
  };
  // Where there is a tree. nullptr: one level.
  [[nodiscard]] const SplitSum* split(std::uint64_t bytes, const Combine& combine);
  [[gnu::noinline]] Outcome combine_in_branches(std::span<const std::byte> mine, std::byte* into,
                                                const Combine& combine);

  ControlArea area_;
  Meeting meeting_;
  std::optional<Tree> tree_;
  std::vector<std::byte> scratch_;
  std::uint64_t exchanged_from_bytes_ = kDirectBytes;
  DirectBlocks direct_{.from_bytes = kDirectBytes};
};

}  // namespace outrigger::intranode
