#include "intranode/team.hpp"

#include <numeric>

#include "intranode/algorithms.hpp"
#include "intranode/direct_trial.hpp"

namespace outrigger::intranode {
namespace {

// Does it take less time to combine a slice each, with twice the steps, than the whole vector?
bool combines_slices(std::uint32_t members, std::uint64_t bytes) {
  return members >= kSlicingMembers && bytes * members >= kSlicingBytes;
}

// Bytes of a call, above none.
bool takes_tree(std::uint64_t bytes) {
  return bytes - 1 < kShortBytes;
}

std::uint64_t total_of(const Blocks& blocks, std::uint32_t members) {
  if (blocks.is_regular()) return blocks.each * members;
  return std::accumulate(blocks.bytes, blocks.bytes + members, std::uint64_t{0});
}

}  // namespace

Team::Team(ControlArea area, std::uint32_t rank, Waiter& waiter)
    : area_(std::move(area)), meeting_(area_, rank, waiter) {}

Outcome Team::open() {
  return barrier();
}

Outcome Team::open(PeerMemory& memory) {
  bool all = true;
  const Outcome outcome = try_direct(meeting_, memory, all);
  direct_.memory = all ? &memory : nullptr;
  return outcome;
}

Outcome Team::barrier() {
  says(CollectiveCall::barrier, 0, 0);
  return tree_ ? barrier_branches(meeting_, tree_->branches) : barrier_flat(meeting_);
}

Outcome Team::broadcast(std::span<std::byte> buffer, std::uint32_t root) {
  if (buffer.empty()) return Outcome::done;
  says(CollectiveCall::bcast, root, buffer.size());
  if (direct_.have(buffer.size())) return broadcast_direct(meeting_, *direct_.memory, buffer, root);
  if (tree_ && takes_tree(buffer.size())) return broadcast_branches(meeting_, tree_->branches, buffer, root);
  return broadcast_slots(meeting_, buffer, root);
}

Outcome Team::gather(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root) {
  const std::uint64_t bytes = rank() == root ? into.each : mine.size();
  if (bytes == 0) return Outcome::done;
  says(CollectiveCall::gather, root, bytes);
  if (direct_.have(bytes)) return gather_direct(meeting_, *direct_.memory, mine, into, root);
  return gather_slots(meeting_, mine, into, root, true);
}
Outcome Team::gatherv(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root) {
  says(CollectiveCall::gatherv, root, mine.size());
  return gather_slots(meeting_, mine, into, root, false);
}

Outcome Team::scatter(const Blocks& from, std::span<std::byte> mine, std::uint32_t root) {
  const std::uint64_t bytes = rank() == root ? from.each : mine.size();
  if (bytes == 0) return Outcome::done;
  says(CollectiveCall::scatter, root, bytes);
  if (direct_.have(bytes)) return scatter_direct(meeting_, *direct_.memory, from, mine, root, true, bytes);
  return scatter_slots(meeting_, from, mine, root, true, {});
}
Outcome Team::scatterv(const Blocks& from, std::span<std::byte> mine, std::uint32_t root) {
  says(CollectiveCall::scatterv, root, 0);
  return scatter_slots(meeting_, from, mine, root, false, direct_);
}

Outcome Team::allgather(std::span<const std::byte> mine, const Blocks& into) {
  says(CollectiveCall::allgather, 0, total_of(into, size()));
  if (tree_ && takes_tree(total_of(into, size()))) return allgather_branches(meeting_, tree_->branches, mine, into);
  if (direct_.have(into.longest(size()))) return allgather_direct(meeting_, *direct_.memory, mine, into);
  return allgather_slots(meeting_, mine, into);
}

Outcome Team::alltoall(const Blocks& from, const Blocks& into) {
  says(CollectiveCall::alltoall, 0, from.each);
  if (exchanged().have(from.each)) return alltoall_direct(meeting_, *direct_.memory, from, into, true);
  return alltoall_slots(meeting_, from, into, true, {});
}
Outcome Team::alltoallv(const Blocks& from, const Blocks& into) {
  says(CollectiveCall::alltoallv, 0, 0);
  return alltoall_slots(meeting_, from, into, false, exchanged());
}
Outcome Team::alltoall_in_place(const Blocks& blocks, bool equal_everywhere) {
  says(equal_everywhere ? CollectiveCall::alltoall : CollectiveCall::alltoallv, 0, equal_everywhere ? blocks.each : 0);
  return alltoall_slots(meeting_, blocks, blocks, equal_everywhere, {});
}

const SplitSum* Team::split(std::uint64_t bytes, const Combine& combine) {
  return takes_tree(bytes) ? tree_->sums.of(combine) : nullptr;
}
Outcome Team::combine_in_branches(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  const SplitSum* const parts = split(mine.size(), combine);
  if (parts == nullptr) return allreduce_slots(meeting_, mine, into, combine);
  return allreduce_branches(meeting_, *parts, mine, into, *combine.in_order());
}

Outcome Team::reduce(std::span<const std::byte> mine, std::byte* into, const Combine& combine, std::uint32_t root) {
  if (mine.empty()) return Outcome::done;
  says(CollectiveCall::reduce, root, mine.size());
  if (combines_slices(size(), mine.size())) return reduce_shared_slices(meeting_, mine, into, combine, root);
  const SplitSum* const parts = tree_ ? split(mine.size(), combine) : nullptr;
  if (parts != nullptr) return reduce_branches(meeting_, *parts, mine, into, *combine.in_order(), root);
  return reduce_slots(meeting_, mine, into, combine, root);
}
Outcome Team::allreduce(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  says(CollectiveCall::allreduce, 0, mine.size());
  if (combines_slices(size(), mine.size())) return reduce_shared_slices(meeting_, mine, into, combine, std::nullopt);
  if (tree_) return combine_in_branches(mine, into, combine);
  return allreduce_slots(meeting_, mine, into, combine);
}
bool Team::all_combine_all(std::uint64_t bytes) const {
  return !combines_slices(size(), bytes);
}
Outcome Team::combine_by_all(CollectiveCall call, std::uint32_t root, std::span<const std::byte> mine, std::byte* into,
                             const Combine& combine) {
  says(call, root, mine.size());
  // Others combine differently at each member.
  const bool is_alike = call == CollectiveCall::allreduce || call == CollectiveCall::reduce;
  if (tree_ && is_alike) return combine_in_branches(mine, into, combine);
  return allreduce_slots(meeting_, mine, into, combine);
}
Outcome Team::reduce_scatter(const std::byte* mine, std::span<const std::uint64_t> bytes, std::byte* into,
                             const Combine& combine) {
  says(CollectiveCall::reduce_scatter, 0, std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
  return reduce_scatter_slots(meeting_, mine, bytes, into, combine);
}
Outcome Team::allreduce_directly(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  says(CollectiveCall::allreduce, 0, mine.size());
  return allreduce_direct(meeting_, *direct_.memory, mine, into, combine, scratch_);
}
Outcome Team::reduce_scatter_directly(const std::byte* mine, std::span<const std::uint64_t> bytes, std::byte* into,
                                      const Combine& combine) {
  says(CollectiveCall::reduce_scatter, 0, std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
  return reduce_scatter_direct(meeting_, *direct_.memory, mine, bytes, into, combine, scratch_);
}
Outcome Team::scan(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  says(CollectiveCall::scan, 0, mine.size());
  return scan_slots(meeting_, mine, into, combine, true);
}
Outcome Team::exscan(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  says(CollectiveCall::exscan, 0, mine.size());
  return scan_slots(meeting_, mine, into, combine, false);
}

}  // namespace outrigger::intranode
