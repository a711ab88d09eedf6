// Barrier across nodes: all of a node come together, then the first members of the nodes do, by dissemination.
//
// Source: D. Hensgen et al., "Two Algorithms for Barrier Synchronization", 1988.
//
//     in round k a node tells the one 2^k after it, and waits for the one 2^k before it
//
// N nodes:
//     rounds  log2 N, rounded up; one message of a node in each
#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {

using intranode::Outcome;

Outcome NodeCollectives::barrier() {
  exchange_.begin(intranode::CallWord(CollectiveCall::barrier, 0, 0));
  if (team_.barrier() != Outcome::done) return Outcome::ended;
  for (std::uint32_t distance = 1; is_first_here() && distance < layout_.nodes(); distance *= 2) {
    exchange_.receive(first_of(after(layout_.nodes() - distance)), {});
    exchange_.send(first_of(after(distance)), {});
    if (exchange_.finish() != Outcome::done) return Outcome::ended;
  }
  return team_.barrier();
}

}  // namespace outrigger::group
