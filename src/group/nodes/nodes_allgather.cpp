// Allgather across nodes: each member sends its block once to each other node, to its helper there. Meanwhile the
// members of each node gather their own blocks. Then helpers share what they got, in rounds of a block each.
//
// Picture (nodes {0, 1} and {2, 3}):
//
//     wire    0 ◀──▶ 2    1 ◀──▶ 3
//     node    0 has 2, 1 has 3 ──▶ both have both
//
// N nodes, k members of n bytes on each:
//     wire    n k (N - 1) into each node, which is the least there is
#include "group/nodes/local_blocks.hpp"
#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {

using intranode::Blocks;
using intranode::Outcome;

Outcome NodeCollectives::all_gather(std::span<const std::byte> mine, const Blocks& into) {
  std::uint64_t total = 0;
  for (std::uint32_t rank = 0; rank < layout_.size(); ++rank) total += into.of(rank).size();
  if (total == 0) return Outcome::done;
  exchange_.begin(intranode::CallWord(CollectiveCall::allgather, 0, total));
  return gather_all(mine, into);
}

Outcome NodeCollectives::gather_all(std::span<const std::byte> mine, const Blocks& into) {
  for_each_elsewhere([&](std::uint32_t rank) {
    const bool helps = helper(layout_.node(), rank) == layout_.rank();
    if (helps && !into.of(rank).empty()) exchange_.receive(rank, into.of(rank));
  });
  for (std::uint32_t distance = 1; distance < layout_.nodes() && !mine.empty(); ++distance) {
    exchange_.send(helper(after(distance), layout_.rank()), mine);
  }
  const LocalBlocks here(into, layout_.here());
  if (team_.allgather(mine, here.get()) != Outcome::done) return Outcome::ended;
  if (exchange_.finish() != Outcome::done) return Outcome::ended;
  for (std::uint32_t distance = 1; distance < layout_.nodes() && team_.size() > 1; ++distance) {
    if (share_helped(layout_.members(after(distance)), into) != Outcome::done) return Outcome::ended;
  }
  return Outcome::done;
}

// A member has helped every team_.size()th of a node's ranks: helper().
Outcome NodeCollectives::share_helped(const std::vector<std::uint32_t>& ranks, const Blocks& into) {
  for (std::size_t first = 0; first < ranks.size(); first += team_.size()) {
    std::vector<std::uint32_t> round(team_.size(), LocalBlocks::kNone);
    for (std::size_t place = 0; place < round.size() && first + place < ranks.size(); ++place) {
      round[place] = ranks[first + place];
    }
    const std::uint32_t own = round[layout_.place()];
    const std::span<const std::byte> helped =
        own == LocalBlocks::kNone ? std::span<const std::byte>() : std::span<const std::byte>(into.of(own));
    const LocalBlocks blocks(into, round);
    if (team_.allgather(helped, blocks.get()) != Outcome::done) return Outcome::ended;
  }
  return Outcome::done;
}

}  // namespace outrigger::group
