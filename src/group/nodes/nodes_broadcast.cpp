// Broadcast across nodes: a chain of nodes, which begins at the root's. The first member of each passes on what it
// gets, piece by piece, and its team gets a piece while the next one is on its way.
//
// Picture (root in node 1 of 3; pieces a, b):
//
//     node 1 ── a b ──▶ node 2 ── a b ──▶ node 0
//
// N nodes, n bytes:
//     wire    n in and out of each node at most
//     time    n, and N - 1 pieces
//
// Short vectors go down a binomial tree: in round k, each of the 2^k nodes that have it sends it to one 2^k further.
#include <algorithm>

#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {
namespace {

using intranode::Outcome;

constexpr std::uint64_t kBroadcastPiece = std::uint64_t{256} << 10;
// Up to here, rounds count more than bytes.
constexpr std::uint64_t kShortBroadcast = std::uint64_t{32} << 10;

// Nodes from which one gets the vector, and to which it gives it, by distance from the root's node.
struct Neighbours {
  std::uint32_t before = 0;  // of all but the root's
  std::vector<std::uint32_t> behind{};
};

Neighbours in_chain(std::uint32_t distance, std::uint32_t nodes) {
  Neighbours found{.before = distance - 1};
  if (distance + 1 < nodes) found.behind.push_back(distance + 1);
  return found;
}

Neighbours in_tree(std::uint32_t distance, std::uint32_t nodes) {
  std::uint32_t reach = 1;
  while (reach <= distance) reach *= 2;
  Neighbours found{.before = distance - reach / 2};
  for (; distance + reach < nodes; reach *= 2) found.behind.push_back(distance + reach);
  return found;
}

}  // namespace

void NodeCollectives::send_in_pieces(std::uint32_t member, std::span<const std::byte> from) {
  for (std::uint64_t done = 0; done < from.size(); done += kBroadcastPiece) {
    exchange_.send(member, from.subspan(done, std::min<std::uint64_t>(kBroadcastPiece, from.size() - done)));
  }
}

Outcome NodeCollectives::broadcast(std::span<std::byte> buffer, std::uint32_t root) {
  if (buffer.empty()) return Outcome::done;
  exchange_.begin(intranode::CallWord(CollectiveCall::bcast, root, buffer.size()));
  const std::uint32_t nodes = layout_.nodes();
  const std::uint32_t distance = (layout_.node() + nodes - layout_.node_of(root)) % nodes;
  const std::uint32_t giver = distance == 0 ? root : first_of(layout_.node());
  const auto giver_at = [&](std::uint32_t other) {
    return other == 0 ? root : first_of((layout_.node_of(root) + other) % nodes);
  };
  const bool is_short = buffer.size() <= kShortBroadcast;
  const Neighbours neighbours = is_short ? in_tree(distance, nodes) : in_chain(distance, nodes);
  const std::uint64_t piece = is_short || distance == 0 ? buffer.size() : kBroadcastPiece;
  for (std::uint64_t done = 0; done < buffer.size(); done += piece) {
    const std::span<std::byte> part = buffer.subspan(done, std::min(piece, buffer.size() - done));
    if (layout_.rank() == giver) {
      if (distance != 0) exchange_.receive(giver_at(neighbours.before), part);
      if (exchange_.finish_receives() != Outcome::done) return Outcome::ended;
      for (const std::uint32_t other : neighbours.behind) send_in_pieces(giver_at(other), part);
    }
    if (team_.broadcast(part, layout_.place_of(giver)) != Outcome::done) return Outcome::ended;
  }
  return exchange_.finish();
}

}  // namespace outrigger::group
