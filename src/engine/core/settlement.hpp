// How pairs of an operation end, and the messages about it: a push is reported, a source is released, a rank has
// finished, two calls do not match. All messages may be repeated; ended pairs do not change.
#pragma once

#include "engine/core/local_rank.hpp"
#include "fabric/block_mover.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Operation;

[[nodiscard]] CompletionStatus status_of(const fabric::MoveOutcome& outcome);

// The destination has read the source's buffer: notifies the source's side.
void release_source(Operation& operation, LocalRank& destination, GroupRank source, CompletionStatus status);
// The same for all sources of another service process, by one message. All of them have been taken.
void release_service(Operation& operation, LocalRank& destination, std::uint32_t peer, CompletionStatus status);
// The source's side of release_source().
void release_pair(LocalRank& source, GroupRank destination, CompletionStatus status);

// Tells the destination's side how the push ended; it marks, counts and releases.
void report_push(Operation& operation, LocalRank& source, GroupRank destination);

// `finished` has ended the operation: ends what is open between it and the rank.
void end_pair_with_finished(LocalRank& rank, GroupRank finished, CompletionStatus status);
// The same for all local ranks.
void end_pairs_with_finished(Operation& operation, const peer::Finished& finished);
// Asks the peer for ranks that have ended the operation, or have left it to their MPI (overdue.hpp).
void ask_for_ends(const Operation& operation, SpId peer, std::uint32_t native_calls);
// The rank has failed and sends nothing: ends its pairs with all others, on both sides.
void fail_for_all(Operation& operation, LocalRank& rank);

// The two ranks call different collectives: nothing moves between them.
void mismatch(LocalRank& rank, GroupRank other);
// As mismatch(), and notifies `other`, which is remote.
void refuse(Operation& operation, LocalRank& rank, GroupRank other);

void on_delivered(Operation& operation, SpId from, const peer::Delivered& delivered);
void on_release(Operation& operation, const peer::Release& release);
void on_refusal(Operation& operation, const peer::Refusal& refusal);

}  // namespace outrigger::engine
