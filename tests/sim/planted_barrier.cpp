// A barrier with a planted bug: the lower ranks leave when they have arrived, without waiting for the others.
#include <optional>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/core/settlement.hpp"
#include "planted.hpp"

namespace outrigger::sim {

using engine::LocalRank;
using engine::Operation;
using engine::Task;

Task planted_barrier_of_a_branch(Operation& operation, LocalRank& rank) {
  operation.announce_send_blocks(rank);
  std::vector<GroupRank> below;
  for (;;) {
    const std::optional<GroupRank> entered = co_await rank.next_ready_peer();
    if (!entered) break;
    below.push_back(*entered);
  }
  operation.announcer.announce_above(rank);
  for (const GroupRank other : below) {  // the bug: before this rank's own release
    engine::release_source(operation, rank, other, rank.record.status);
    rank.pairs.end_move();
    rank.fill(other);
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::sim
