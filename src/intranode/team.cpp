#include "intranode/team.hpp"

#include "intranode/algorithms.hpp"

namespace outrigger::intranode {

Team::Team(ControlArea area, std::uint32_t rank, Waiter& waiter)
    : area_(std::move(area)), meeting_(area_, rank, waiter) {}

Outcome Team::open() {
  return barrier();
}

Outcome Team::barrier() {
  return barrier_flat(meeting_);
}

Outcome Team::broadcast(std::span<std::byte> buffer, std::uint32_t root) {
  return broadcast_slots(meeting_, buffer, root);
}

Outcome Team::gather(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root) {
  return gather_slots(meeting_, mine, into, root, true);
}
Outcome Team::gatherv(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root) {
  return gather_slots(meeting_, mine, into, root, false);
}

Outcome Team::scatter(const Blocks& from, std::span<std::byte> mine, std::uint32_t root) {
  return scatter_slots(meeting_, from, mine, root, true);
}
Outcome Team::scatterv(const Blocks& from, std::span<std::byte> mine, std::uint32_t root) {
  return scatter_slots(meeting_, from, mine, root, false);
}

Outcome Team::allgather(std::span<const std::byte> mine, const Blocks& into) {
  return allgather_slots(meeting_, mine, into);
}

Outcome Team::alltoall(const Blocks& from, const Blocks& into) {
  return alltoall_slots(meeting_, from, into, true);
}
Outcome Team::alltoallv(const Blocks& from, const Blocks& into) {
  return alltoall_slots(meeting_, from, into, false);
}
Outcome Team::alltoall_in_place(const Blocks& blocks, bool equal_everywhere) {
  return alltoall_slots(meeting_, blocks, blocks, equal_everywhere);
}

Outcome Team::reduce(std::span<const std::byte> mine, std::byte* into, const Combine& combine, std::uint32_t root) {
  return reduce_slots(meeting_, mine, into, combine, root);
}
Outcome Team::allreduce(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  return allreduce_slots(meeting_, mine, into, combine);
}
Outcome Team::reduce_scatter(const std::byte* mine, std::span<const std::uint64_t> bytes, std::byte* into,
                             const Combine& combine) {
  return reduce_scatter_slots(meeting_, mine, bytes, into, combine);
}
Outcome Team::scan(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  return scan_slots(meeting_, mine, into, combine, true);
}
Outcome Team::exscan(std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
  return scan_slots(meeting_, mine, into, combine, false);
}

}  // namespace outrigger::intranode
