// One collective on one group as this service process sees it: what algorithms are written against, together with
// local_rank.hpp, task.hpp and window.hpp.
//
// Order of events for every block, which algorithms keep: bytes placed, delivered mark, release to the source, then
// completion of either rank.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/core/announcer.hpp"
#include "engine/core/block_map.hpp"
#include "engine/core/context.hpp"
#include "engine/core/group.hpp"
#include "engine/core/local_rank.hpp"
#include "engine/core/matcher.hpp"
#include "engine/core/move.hpp"
#include "engine/core/pool.hpp"
#include "engine/core/window.hpp"

namespace outrigger::engine {

class Replicas;

class Operation final : public Pooled {
 public:
  Operation(Context& engine_context, Group& its_group, std::uint64_t its_sequence);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  // --- For algorithms. ---

  // Tells every service process with members where the rank's blocks are, and meets those that were first.
  // `eager`: which of them the fabric may send before they are asked for; their destinations get them by pull().
  void announce_send_blocks(LocalRank& rank, EagerSends eager = EagerSends::no) {
    announce(rank, peer::Side::send, eager);
  }
  void announce_receive_blocks(LocalRank& rank) { announce(rank, peer::Side::receive, EagerSends::no); }

  [[nodiscard]] Window::Enter enter_window(LocalRank& rank) { return context.window.enter(rank.window_slots); }
  void leave_window(LocalRank& rank) { context.window.leave(rank.window_slots); }

  // Awaited: the source's block for the rank, from the source itself, which may have sent it eagerly.
  [[nodiscard]] Move pull(const LocalRank& rank, GroupRank source) const;
  // Awaited: the rank's block for the destination.
  [[nodiscard]] Move push(const LocalRank& rank, GroupRank destination) const;
  // Awaited: any block.
  [[nodiscard]] Move move(const Block& from, const Block& to) const { return Move(context, from, to); }

  // After a pull, in this order.
  void mark_delivered(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);
  void release(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);
  void count_filled(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);

  // After a push: the destination's service process marks, counts and releases.
  void report_delivered(LocalRank& source, GroupRank destination, const fabric::MoveOutcome& outcome);

  // The last step of an algorithm: the rank is told.
  void complete(LocalRank& rank);

  [[nodiscard]] const Membership& membership() const { return *group.membership(); }
  // Where blocks are to be had from others than their sources.
  [[nodiscard]] Replicas& replicas();
  // Where the frames of its coroutines come from.
  [[nodiscard]] Pool& frames() const { return context.frames; }

  // --- For the engine. ---

  [[nodiscard]] OperationId id() const { return OperationId{group.id(), sequence}; }
  // How it ended for a local rank; nothing while it has not.
  [[nodiscard]] std::optional<CompletionStatus> finished(WorldRank rank) const {
    return group.finished(rank, sequence);
  }

  void add(PostedOperation&& posted, AlgorithmFunction algorithm);
  void remove_completed();
  void drop(GroupRank rank);
  // A local rank is known to have completed this operation, before a restart or by being gone: peers are told.
  void restored(WorldRank rank);
  void peer_restarted(std::uint32_t peer);
  [[nodiscard]] bool is_over() const;

  // A receive block has come to its end, or a rank has gone: who waits for it here may have to be told.
  void reconsider_replicas();
  // Nobody reads here of whom this incarnation does not know.
  [[nodiscard]] bool is_quiescent() const;

  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  Context& context;
  Group& group;
  const std::uint64_t sequence;
  LocalRanks ranks;
  RemoteBuffers remote_buffers;
  Announcer announcer;
  Matcher matcher;
  std::uint32_t looks = 0;  // at it as one that is overdue, so far

 private:
  void announce(LocalRank& rank, peer::Side side, EagerSends eager);

  std::unique_ptr<Replicas> replicas_;  // where the algorithm passes blocks on
};

// ---------------------------------------------------------------- for each block, so inline

inline Move::Move(const Operation& operation, GroupRank source, GroupRank destination, const Block& from,
                  const Block& to)
    : InFlight(operation.context),
      from_(from),
      to_(to),
      eager_in_(&operation),
      source_(source),
      destination_(destination) {}

inline void Move::await_suspend(std::coroutine_handle<> waiter) {
  assert(from_.bytes != 0 && from_.bytes == to_.bytes && "a move has bytes, as many at both ends");
  begin(waiter);
  ++context_.counters.moves;
  context_.counters.moved_bytes += from_.bytes;
  if (eager_in_ == nullptr) return context_.fabric.mover.move(from_, to_, nullptr, *this);
  const BlockId name{eager_in_->id(), source_, destination_};
  context_.fabric.mover.move(from_, to_, &name, *this);
}

inline Move Operation::pull(const LocalRank& rank, GroupRank source) const {
  return Move(*this, source, rank.me(), rank.blocks.pull_from(source), rank.blocks.pull_to(source));
}

inline Move Operation::push(const LocalRank& rank, GroupRank destination) const {
  return Move(context, rank.blocks.push_from(destination), rank.blocks.push_to(destination));
}

}  // namespace outrigger::engine
