// rooted: allreduce of short vectors. One rank, the root, reduces all contributions and sends the result to all.
//
// Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication Operations in MPICH",
// IJHPCA 2005, on reduce and allreduce: short vectors need few messages one after another.
//
// Source and code (sentences of the paper; -: the paper says nothing, the choice is ours):
//     a reduce to a root, then a broadcast: what MPICH     | `reduce_at_root`: one level, as a service process
//        did before, by binomial trees                     |    waits for all others at the same time
//     recursive doubling: ranks exchange vectors with      | left out: it adds in another order, and takes n log2 n
//        ranks 1, 2, 4, ... away                           |    messages; here each rank has one partner, `contribute`
//     - the order of operands                              | that of group ranks, always: `operands_of`
//     - contributions travel with their announcements,     | `announce_send_blocks(rank, EagerSends::to_all)`,
//        and so does the result                            |    `hold_send_blocks(root, EagerSends::to_all)`
//     - the result exists later than the announcement of   | `announce_held_blocks`
//        the other blocks of a rank                        |
//     - failures                                           | the root reports them: core/settlement.cpp
//                                                          |    `fail_for_all`
//     - who is the root                                    | rank 0: core/posts.cpp `make_rooted`
//
// Picture (3 ranks, root 0; A, B, C: their contributions):
//
//     rank 0's service process                  rank 1's                  rank 2's
//         │ ◀── announce + B ──────────────────────│                         │
//         │ ◀── announce + C ────────────────────────────────────────────────│
//         A + B + C, into rank 0's buffer          │                         │
//         │── release, announce + result ────────▶ rank 1 completes          │
//         │── release, announce + result ──────────────────────────────────▶ rank 2 completes
//         │ ◀── release ───────────────────────────│                         │
//         │ ◀── release ─────────────────────────────────────────────────────│
//     rank 0 completes
//
// Order: that of group ranks, ((0 + 1) + 2) + ..., whatever arrives first: the same bits as `sliced_pull`.
// Late arrivals: the result needs all contributions, so nothing is reduced before the last rank has posted.
//
// Group of p, s service processes with members:
//     rounds          2, and one more until the root may change its buffer
//     announcements   p - 1 contributions less those of the root's service process, and s - 1 of the result (108 bytes)
//     messages        3 between the root's service process and each other one, if its ranks post together
//     on the wire     each contribution of another node to the root's, and the result to each rank there. Up to 4 KiB,
//                     and up to 32 KiB where processors carry them, they travel with the announcements
//     bounds          state O(p) per local rank. The root's service process handles O(s) messages and all bytes, so
//                     this is for short vectors only
//
// Restarts: a contribution is released when the result is in the root's buffer and marked. The root's buffer is
// released by each rank that has the result. So one of both is always there: a restarted root without a mark reduces
// again, and with a mark announces the result again. No rank reads a buffer without a mark, so there is no wait for
// readers. The root announces nothing before it has the result, so peers cannot answer it with the end of their ranks.
// Its service process asks for them after a restart (core/overdue).
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/core/reduction_steps.hpp"
#include "engine/core/settlement.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {
namespace {

// All others have announced, with as many bytes as the root has.
bool has_all_contributions(const Operation& operation, const LocalRank& root) {
  for (std::size_t i = 0; i < operation.membership().size(); ++i) {
    const GroupRank source = group_rank(i);
    if (source == root.me()) continue;
    if (root.blocks.contribution(source).bytes != root.posted().receive.block_bytes) return false;
  }
  return true;
}

struct Operands {
  std::vector<Block> blocks;
  std::vector<BlockId> names;  // of those that were sent with an announcement
};

Operands operands_of(const Operation& operation, const LocalRank& root) {
  Operands all;
  for (std::size_t i = 0; i < operation.membership().size(); ++i) {
    const GroupRank source = group_rank(i);
    const Block own{root.posted().own_contribution, root.posted().receive.block_bytes};
    all.blocks.push_back(source == root.me() ? own : root.blocks.contribution(source));
    all.names.push_back(BlockId{operation.id(), source, root.me()});
  }
  return all;
}

Task reduce_at_root(Operation& operation, LocalRank& root) {
  operation.hold_send_blocks(root, EagerSends::to_all);
  for (;;) {
    const std::optional<GroupRank> source = co_await root.next_ready_peer();
    if (!source) break;  // all have come or ended
  }
  fabric::MoveOutcome outcome;
  const bool reduces = root.posted().receive.block_bytes != 0 && !root.pairs[root.me()].placed;
  if (reduces && !has_all_contributions(operation, root)) root.fail(CompletionStatus::mismatch);
  if (reduces && root.record.status == CompletionStatus::ok) {
    co_await operation.enter_window(root);
    const Operands operands = operands_of(operation, root);
    const Block into = root.posted().receive.block(root.me());
    outcome = co_await reduce(operation, root, operands.blocks, into, operands.names);
    operation.leave_window(root);
    end_slice(operation, root, root.me(), outcome);
  }
  end_contributions(operation, root, outcome);
  // An earlier incarnation may have announced a result that is in place, and ranks may be reading it.
  if (root.record.status == CompletionStatus::ok || root.pairs[root.me()].placed) {
    operation.announce_held_blocks(root);
  } else {
    fail_for_all(operation, root);
  }
  co_await root.filled_and_released();
  operation.complete(root);
}

Task contribute(Operation& operation, LocalRank& rank) {
  operation.announce_send_blocks(rank, EagerSends::to_all);
  const std::optional<GroupRank> root = co_await rank.next_ready_peer();
  if (root) {
    const bool near = operation.is_near(rank.blocks.pull_from(*root));
    co_await operation.enter_window(rank, near);
    const fabric::MoveOutcome outcome = co_await operation.pull(rank, *root);
    operation.leave_window(rank, near);
    operation.mark_block(rank, *root, outcome);
    operation.release(rank, *root, outcome);
    operation.count_filled(rank, *root, outcome);
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace

Task allreduce_rooted(Operation& operation, LocalRank& rank) {
  if (operation.membership().size() == 1) return allreduce_sliced_pull(operation, rank);
  if (rank.me().value() == rank.posted().root) return reduce_at_root(operation, rank);
  return contribute(operation, rank);
}

}  // namespace outrigger::engine
