// Alltoall across nodes: members of different nodes exchange their blocks themselves, beginning with the next node;
// those of a node are a team.
//
// Both ends of a pair know its length alone, so empty blocks are sent, too: as heads, which are compared.
#include "group/nodes/local_blocks.hpp"
#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {

using intranode::Blocks;
using intranode::Outcome;

Outcome NodeCollectives::all_to_all(const Blocks& from, const Blocks& into) {
  exchange_.begin(intranode::CallWord(CollectiveCall::alltoall, 0, from.each));
  return exchange_blocks(from, into);
}

// Blocks may be in a row on one member and not on another.
Outcome NodeCollectives::all_to_allv(const Blocks& from, const Blocks& into) {
  exchange_.begin(intranode::CallWord(CollectiveCall::alltoallv, 0, 0));
  return exchange_blocks(from, into);
}

Outcome NodeCollectives::exchange_blocks(const Blocks& from, const Blocks& into) {
  for_each_elsewhere([&](std::uint32_t rank) { exchange_.receive(rank, into.of(rank)); });
  for_each_elsewhere([&](std::uint32_t rank) { exchange_.send(rank, from.of(rank)); });
  const LocalBlocks given(from, layout_.here());
  const LocalBlocks taken(into, layout_.here());
  if (team_.alltoallv(given.get(), taken.get()) != Outcome::done) return Outcome::ended;
  return exchange_.finish();
}

}  // namespace outrigger::group
