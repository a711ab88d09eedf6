// Gather and scatter across nodes: members of other nodes exchange their blocks with the root themselves, as no byte
// can be saved on the way. The root's node is a team.
#include "group/nodes/local_blocks.hpp"
#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {

using intranode::Blocks;
using intranode::Outcome;

Outcome NodeCollectives::gather(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root) {
  if (mine.empty()) return Outcome::done;
  exchange_.begin(intranode::CallWord(CollectiveCall::gather, root, mine.size()));
  if (!layout_.is_here(root)) {
    exchange_.send(root, mine);
    return exchange_.finish();
  }
  const bool is_root = layout_.rank() == root;
  if (is_root) for_each_elsewhere([&](std::uint32_t rank) { exchange_.receive(rank, into.of(rank)); });
  const LocalBlocks here(is_root ? into : Blocks{}, layout_.here());
  if (team_.gather(mine, here.get(mine.size()), layout_.place_of(root)) != Outcome::done) return Outcome::ended;
  return exchange_.finish();
}

Outcome NodeCollectives::scatter(const Blocks& from, std::span<std::byte> mine, std::uint32_t root) {
  if (mine.empty()) return Outcome::done;
  exchange_.begin(intranode::CallWord(CollectiveCall::scatter, root, mine.size()));
  if (!layout_.is_here(root)) {
    exchange_.receive(root, mine);
    return exchange_.finish();
  }
  const bool is_root = layout_.rank() == root;
  if (is_root) for_each_elsewhere([&](std::uint32_t rank) { exchange_.send(rank, from.of(rank)); });
  const LocalBlocks here(is_root ? from : Blocks{}, layout_.here());
  if (team_.scatter(here.get(mine.size()), mine, layout_.place_of(root)) != Outcome::done) return Outcome::ended;
  return exchange_.finish();
}

}  // namespace outrigger::group
