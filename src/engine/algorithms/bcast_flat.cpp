// flat: broadcast among service processes, each of which serves its ranks: small blocks down a binomial tree, large
// ones scattered and gathered again.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section IV.A: the root's service process reads the root's buffer, the service processes broadcast it among
// themselves (binomial for small, scatter-allgather for large messages), and each writes it to its ranks.
// Ours: no memory of the service process is used. Its first rank that has arrived stands for it: the block is moved
// into that rank's buffer, and from there to the other ranks and to the next service processes. One that has no rank in
// the operation yet is passed over: those below it ask further up, at last the root, so nobody but the root waits for
// late ranks. A large block is scattered in as many parts as there are nodes besides the root's, where they have at
// least `split_bytes`. Each has a home, the first service process of a node, which reads it from the root; the first
// ones of the other nodes read it there, and their siblings from them. So no node sends the block more than once.
// The part of each node is cut again (`part_bytes`); it passes on what it has while it reads the rest.
//
// Pictures (5 service processes, numbered from the root's; binomial: the parent has the lowest bit cleared; and the
// parts of a large block on 4 nodes of one service process):
//
//     root's 0 ──▶ 1                               0 ──A──▶ 1    B, C from 2, 3
//       │└─────▶ 2 ──▶ 3      each: first rank     │──B──▶ 2    A, C from 1, 3
//       └──────▶ 4             ──▶ its others      └──C──▶ 3    A, B from 1, 2
//
// Rounds: log2 s; of a large block two. Per operation, group of p, s service processes with members on n nodes:
//     announcements   the root's to s - 1, the others' to the root's service process (each 108 bytes)
//     moves           p - 1, at most `window_moves` in flight per service process; of a large block as many times as it
//                     has parts
//     on the wire     small: the block s - 1 times, log2 s of them from the root's node; large: n - 1 times, at most
//                     once from each node; per rank a release (52 bytes); per move between service processes that does
//                     not begin at the root: want (52), copy (76), done (44)
//     bounds          state O(p) at each rank's service process. The root stays until all have the block
#include <algorithm>

#include "engine/core/operation.hpp"
#include "engine/relay/node_stage.hpp"
#include "engine/relay/segments.hpp"

namespace outrigger::engine {
namespace {

// The ancestors in the tree, from the parent on. Those at the root's service process read from the root itself.
std::optional<SpId> ask_ancestor(const Operation& operation, GroupRank root, std::uint32_t /*piece*/,
                                 std::uint32_t hop) {
  const Membership& membership = operation.membership();
  const std::vector<SpId>& services = membership.services();
  const auto place = [&](SpId service) {
    return static_cast<std::size_t>(std::lower_bound(services.begin(), services.end(), service) - services.begin());
  };
  const std::size_t first = place(membership.service_of(root));
  std::size_t number = (place(membership.self()) + services.size() - first) % services.size();
  for (std::uint32_t up = 0; up <= hop && number != 0; ++up) number &= number - 1;
  if (number == 0) return std::nullopt;
  return services[(number + first) % services.size()];
}

// The first service process of this node, then the part's home.
std::optional<SpId> ask_home(const Operation& operation, GroupRank root, std::uint32_t part, std::uint32_t hop) {
  const Membership& membership = operation.membership();
  const std::vector<SpId>& firsts = membership.leaders_of_nodes();
  const std::size_t own = membership.node_of(membership.self());
  const std::size_t home = home_of_part(operation, root, part);
  if (hop == 0) return firsts[own];
  if (hop == 1 && home != own) return firsts[home];
  return std::nullopt;
}

// A Parts::ReadsHere.
bool reads_here(const Operation& operation, GroupRank /*root*/, std::uint32_t /*part*/) {
  const Membership& membership = operation.membership();
  return membership.leaders_of_nodes()[membership.node_of(membership.self())] == membership.self();
}

// The number of parts that a large block comes in, so many for each node but the root's as a node's is cut into; 0: it
// is small. Nobody gets less than all of a large one.
std::uint32_t parts_of(const Operation& operation, const LocalRank& rank, GroupRank root) {
  const std::size_t others = operation.membership().leaders_of_nodes().size() - 1;
  if (others < 2 || others > peer::kMaxPieces || !rank.gets_all_of(root)) return 0;
  const std::uint64_t bytes = rank.pull_bytes(root) / others;
  if (bytes < operation.limits().split_bytes) return 0;
  return static_cast<std::uint32_t>(others * cuts(operation, bytes, others));
}

}  // namespace

Task bcast_flat(Operation& operation, LocalRank& rank) {
  operation.announce_send_blocks(rank);  // the root: my block may be read; the others: I am here
  const std::optional<GroupRank> root = co_await rank.next_ready_peer();
  if (root) {  // not at the root, nor where nothing is sent
    const std::uint32_t count = parts_of(operation, rank, *root);
    const bool near = operation.on_own_node(*root);
    Parts block(operation, rank, *root, near ? 1 : count);
    if (count == 0) {
      block.receive(ask_ancestor);
    } else if (near) {
      block.receive(nullptr);  // from the root itself, at once
    } else {
      block.receive_in_turns(ask_home, reads_here);
    }
    co_await block.ended();
    const fabric::MoveOutcome outcome = block.outcome();
    operation.mark_delivered(rank, *root, outcome);
    operation.release(rank, *root, outcome);
    operation.count_filled(rank, *root, outcome);
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
