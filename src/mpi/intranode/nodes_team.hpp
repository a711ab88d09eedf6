// The team of a communicator that spans nodes: blocking collectives in two levels. The ranks of each node are a team
// that shares memory (intranode/team.hpp). Their first ones, the leaders, call the MPI between nodes.
//
//     gather at the leader      | members -> leader, shared memory
//     exchange between leaders  | one message for each pair of nodes, not for each pair of ranks
//     scatter, broadcast        | leader -> members, shared memory
//
// Source: Bienz, Olson, Gropp (2019), "Node-aware improvements to allreduce", and MPI Advance's locality-aware
// collectives. Ranks of a node may have any places in the communicator: leaders sort blocks by node.
//
// Same operations, arguments and rules as intranode::Team, for those that there are; members are the communicator's
// ranks. Lengths are equal everywhere.
//
// Thread rule: the team's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "intranode/call_word.hpp"
#include "intranode/combine.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/team.hpp"
#include "mpi/intranode/leaders.hpp"
#include "mpi/intranode/nodes_map.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::mpi {

class NodesTeam {
 public:
  using Blocks = intranode::Blocks;
  using Outcome = intranode::Outcome;

  // `node`: the team of the node's ranks, in their order. It outlives this.
  NodesTeam(intranode::Team& node, Leaders leaders, NodesMap map, std::uint32_t rank);

  [[nodiscard]] const NodesMap& map() const { return map_; }

  // False: native. `bytes` of a block.
  [[nodiscard]] bool takes(CollectiveCall call, std::uint64_t bytes) const;

  Outcome barrier();
  Outcome broadcast(std::span<std::byte> buffer, std::uint32_t root);
  Outcome gather(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root);
  Outcome scatter(const Blocks& from, std::span<std::byte> mine, std::uint32_t root);
  Outcome allgather(std::span<const std::byte> mine, const Blocks& into);
  Outcome alltoall(const Blocks& from, const Blocks& into);
  // Contributions are combined by `combine` within a node, and between nodes by the MPI.
  Outcome reduce(std::span<const std::byte> mine, std::byte* into, const intranode::Combine& combine,
                 const NativeReduction& between_nodes, std::uint32_t root);
  Outcome allreduce(std::span<const std::byte> mine, std::byte* into, const intranode::Combine& combine,
                    const NativeReduction& between_nodes);

  // In the order of ranks, wherever they are: `combine` takes the contributions of all ranks. Short vectors only.
  // Without `root` all ranks get the result.
  [[nodiscard]] bool takes_in_order(std::uint64_t bytes) const;
  Outcome reduce_in_order(std::span<const std::byte> mine, std::byte* into, const intranode::Combine& combine,
                          std::optional<std::uint32_t> root);

  // Sums and products of floating-point numbers, as allreduce(). `asks_native`, which is the same at all ranks: a
  // contribution may have a NaN, so only the MPI knows the bits.
  Outcome allreduce_sums(std::span<const std::byte> mine, std::byte* into, const intranode::OrderCombine& combine,
                         const NativeReduction& between_nodes, bool& asks_native);
  // Minima and maxima of short vectors of floating-point numbers, likewise (intranode/sums/sum_order.hpp).
  [[nodiscard]] bool takes_extrema(std::uint64_t bytes) const;
  Outcome allreduce_extrema(std::span<const std::byte> mine, std::byte* into, const Reduction& reduction,
                            bool& asks_native);

  // The first node's clock is about so much ahead of this node's. Collective.
  Outcome compare_clocks(std::int64_t& ahead_ns);

  // Why an operation has ended, unless the node's team has a reason: this rank's own arguments, or an error of the MPI.
  [[nodiscard]] const std::optional<intranode::Difference>& difference() const { return difference_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  enum class Room : std::uint8_t { own, local, sorted, other, contributions };
  static constexpr std::size_t kRooms = 5;

  [[nodiscard]] bool leads() const { return node_.rank() == 0; }
  [[nodiscard]] std::uint32_t here() const { return node_.size(); }
  [[nodiscard]] bool is_here(std::uint32_t rank) const { return map_.node_of(rank) == my_node_; }
  // Memory of this operation.
  [[nodiscard]] std::byte* room(Room which, std::uint64_t bytes);

  // Gives long memory back.
  Outcome done(Outcome outcome);
  // The leaders' call has succeeded.
  [[nodiscard]] bool between(int code);
  Outcome differ(intranode::CallWord call, std::uint64_t given, std::uint64_t room);
  // Bytes of one rank of the node to another one of the node, which know the length; others have none.
  Outcome hand_on(std::span<const std::byte> from, std::span<std::byte> into, std::uint32_t source,
                  std::uint32_t target);
  void sort_by_target_node(const std::byte* rows, std::byte* sorted, std::uint64_t each) const;
  void sort_by_source(const std::byte* sorted, std::byte* rows, std::uint64_t each) const;

  intranode::Team& node_;
  Leaders leaders_;
  NodesMap map_;
  std::uint32_t me_;
  std::uint32_t my_node_;
  std::array<std::vector<std::byte>, kRooms> rooms_;
  std::optional<intranode::Difference> difference_;
  int error_ = 0;
};

}  // namespace outrigger::mpi
