#include "sim/timing/workload.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace outrigger::sim::timing {
namespace {

using engine::BlockLayout;
using engine::PostedOperation;

void same_for_all(BlockLayout& layout, std::uint64_t bytes) {
  layout.block_bytes = bytes;
  layout.stride_bytes = 0;
}

void one_each(BlockLayout& layout, std::uint64_t bytes) {
  layout.block_bytes = bytes;
  layout.stride_bytes = static_cast<std::int64_t>(bytes);
}

void with_root_alone(BlockLayout& layout, std::uint64_t bytes, std::uint32_t root) {
  same_for_all(layout, bytes);
  layout.only = GroupRank{root};
}

// Both ways: a block for the rank at `distance`, and one from the rank at `distance` backwards.
void by_distance(PostedOperation& operation, const std::vector<std::uint64_t>& bytes) {
  const std::size_t size = bytes.size();
  std::int64_t sent = 0;
  std::int64_t received = 0;
  for (std::size_t peer = 0; peer < size; ++peer) {
    const std::uint64_t to = bytes[(peer + size - operation.me.value()) % size];
    const std::uint64_t from = bytes[(operation.me.value() + size - peer) % size];
    operation.send.extents.push_back(PairExtent{sent, to});
    operation.receive.extents.push_back(PairExtent{received, from});
    sent += static_cast<std::int64_t>(to);
    received += static_cast<std::int64_t>(from);
  }
}

// Consecutive blocks; only neighbors have one.
void for_neighbors(BlockLayout& layout, const std::vector<GroupRank>& neighbors, std::size_t size,
                   std::uint64_t bytes) {
  layout.neighbors = neighbors;
  if (neighbors.empty()) return;
  layout.extents.resize(size);
  std::int64_t offset = 0;
  for (const GroupRank neighbor : neighbors) {
    layout.extents[neighbor.value()] = PairExtent{offset, bytes};
    offset += static_cast<std::int64_t>(bytes);
  }
}

void lay_out_v(PostedOperation& operation, const Call& call, std::size_t size) {
  const std::vector<std::uint64_t> even(size, call.bytes);
  by_distance(operation, call.by_distance.empty() ? even : call.by_distance);
}

void reduces(PostedOperation& operation, std::uint64_t vector_bytes, std::uint64_t result_bytes) {
  operation.own_block_done = false;
  operation.reduction = Reduction{ReduceOperation::sum, ElementType::float32};
  same_for_all(operation.send, vector_bytes);
  same_for_all(operation.receive, result_bytes);
  operation.receive.base.address = vector_bytes;  // the result lies behind the contribution
}

void lay_out(PostedOperation& operation, const Call& call, const Communicator& communicator) {
  const std::uint64_t bytes = call.bytes;
  const std::size_t size = operation.members->size();
  const bool is_root = operation.me.value() == call.root;
  switch (call.collective) {
    case Collective::ialltoall: one_each(operation.send, bytes); return one_each(operation.receive, bytes);
    case Collective::ialltoallv:
    case Collective::ialltoallw: return lay_out_v(operation, call, size);
    case Collective::iallgather: same_for_all(operation.send, bytes); return one_each(operation.receive, bytes);
    case Collective::iallgatherv:
      lay_out_v(operation, call, size);
      operation.send.extents.clear();
      return same_for_all(operation.send, bytes);
    case Collective::ibcast:
      operation.own_block_done = is_root;
      same_for_all(operation.send, is_root ? bytes : 0);
      return with_root_alone(operation.receive, is_root ? 0 : bytes, call.root);
    case Collective::iallreduce: return reduces(operation, bytes, bytes);
    case Collective::ireduce: return reduces(operation, bytes, is_root ? bytes : 0);
    case Collective::ireduce_scatter_block:
      reduces(operation, bytes * size, bytes);
      operation.part_offset_bytes = bytes * operation.me.value();
      return;
    case Collective::igather:
      with_root_alone(operation.send, bytes, call.root);
      return one_each(operation.receive, is_root ? bytes : 0);
    case Collective::iscatter:
      one_each(operation.send, is_root ? bytes : 0);
      return with_root_alone(operation.receive, bytes, call.root);
    case Collective::ibarrier: return;
    default: break;
  }
  assert(is_of_neighbors(call.collective) && "can_post() is true");
  const std::vector<GroupRank>& neighbors = communicator.neighbors[operation.rank.value()];
  for_neighbors(operation.send, neighbors, size, bytes);
  for_neighbors(operation.receive, neighbors, size, bytes);
}

// Sent and received.
std::uint64_t bytes_of_a_rank(const Call& call, std::uint64_t members) {
  if (!call.by_distance.empty()) return 2 * std::accumulate(call.by_distance.begin(), call.by_distance.end(), 0UL);
  if (call.collective == Collective::ibcast) return call.bytes;
  if (call.collective == Collective::ireduce || call.collective == Collective::iallreduce) return 2 * call.bytes;
  if (call.collective == Collective::iallgather) return (members + 1) * call.bytes;
  return 2 * members * call.bytes;  // upper bound
}

}  // namespace

Communicator make_communicator(const std::vector<std::vector<std::uint32_t>>& groups) {
  Communicator communicator;
  std::size_t ranks = 0;
  for (const std::vector<std::uint32_t>& group : groups) ranks += group.size();
  communicator.group_of.resize(ranks);
  communicator.place_of.resize(ranks);
  communicator.neighbors.resize(ranks);
  for (std::uint32_t number = 0; number < groups.size(); ++number) {
    std::vector<WorldRank> members;
    for (const std::uint32_t rank : groups[number]) {
      communicator.group_of[rank] = number;
      communicator.place_of[rank] = static_cast<std::uint32_t>(members.size());
      members.emplace_back(rank);
    }
    communicator.groups.push_back(std::make_shared<const std::vector<WorldRank>>(std::move(members)));
  }
  return communicator;
}

std::uint64_t bytes_on_a_node(const Workload& workload, const JobShape& shape) {
  std::uint64_t of_a_rank = 0;
  for (const Call& call : workload.calls) {
    const Communicator& communicator = workload.communicators[call.communicator];
    std::uint64_t members = 0;
    for (const auto& group : communicator.groups) members = std::max<std::uint64_t>(members, group->size());
    of_a_rank += bytes_of_a_rank(call, members);
  }
  return of_a_rank * shape.ranks_per_node;
}

Workload one_call(const Places& places, const Call& call) {
  std::vector<std::uint32_t> all(places.ranks());
  for (std::uint32_t rank = 0; rank < places.ranks(); ++rank) all[rank] = rank;
  return Workload{{make_communicator({all})}, {call}};
}

bool can_post(Collective collective) {
  switch (collective) {
    case Collective::igatherv:
    case Collective::iscatterv:
    case Collective::ireduce_scatter:
    case Collective::iscan:
    case Collective::iexscan: return false;
    default: return is_known(collective);
  }
}

PostedOperation posted(const Workload& workload, const Call& call, std::uint32_t rank, std::uint64_t group,
                       std::uint64_t sequence) {
  const Communicator& communicator = workload.communicators[call.communicator];
  PostedOperation operation;
  operation.rank = WorldRank{rank};
  operation.id = OperationId{GroupId{1, group + 1}, sequence};
  operation.members = communicator.groups[communicator.group_of[rank]];
  operation.me = GroupRank{communicator.place_of[rank]};
  operation.collective = call.collective;
  operation.algorithm = call.algorithm;
  operation.root = call.root;
  operation.own_block_done = !is_of_neighbors(call.collective);
  operation.send.base.owner = operation.receive.base.owner = operation.rank;
  lay_out(operation, call, communicator);
  operation.digest = operation_digest(call.collective, call.algorithm, operation.root,
                                      static_cast<std::uint32_t>(operation.members->size()), 0);
  return operation;
}

Numbering::Numbering(const Workload& workload, std::uint32_t ranks) {
  std::uint64_t groups = 0;
  for (const Communicator& communicator : workload.communicators) {
    first_group_.push_back(groups);
    groups += communicator.groups.size();
    counts_.emplace_back(ranks, 0);
  }
}

Numbering::Number Numbering::next(const Workload& workload, const Call& call, std::uint32_t rank) {
  const std::uint32_t group = workload.communicators[call.communicator].group_of[rank];
  return {first_group_[call.communicator] + group, counts_[call.communicator][rank]++};
}

}  // namespace outrigger::sim::timing
