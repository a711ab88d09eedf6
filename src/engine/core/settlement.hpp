// How the pairs of an operation come to their end, and what the two sides say of it: a push is reported, a source is
// released, a rank has finished, two ranks disagree. All may be said twice: what has ended stays as it is.
#pragma once

#include "engine/core/local_rank.hpp"
#include "fabric/block_mover.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Operation;

[[nodiscard]] CompletionStatus status_of(const fabric::MoveOutcome& outcome);

// The destination needs nothing more from the source's buffer: the source's side is told.
void release_source(Operation& operation, LocalRank& destination, GroupRank source, CompletionStatus status);
// The source's side has heard that.
void release_pair(LocalRank& source, GroupRank destination, CompletionStatus status);

// The destination's side is told how the push ended; it marks, counts and releases.
void report_push(Operation& operation, LocalRank& source, GroupRank destination);

// `finished` has ended the operation: whatever is still open between it and the rank needs nothing more.
void end_pair_with_finished(LocalRank& rank, GroupRank finished, CompletionStatus status);
// The same for all local ranks.
void end_pairs_with_finished(Operation& operation, const peer::Finished& finished);

// The two ranks call something different: nothing moves between them in either direction.
void mismatch(LocalRank& rank, GroupRank other);
// And `other`, a peer's rank, is told.
void refuse(Operation& operation, LocalRank& rank, GroupRank other);

void on_delivered(Operation& operation, SpId from, const peer::Delivered& delivered);
void on_release(Operation& operation, const peer::Release& release);
void on_refusal(Operation& operation, const peer::Refusal& refusal);

}  // namespace outrigger::engine
