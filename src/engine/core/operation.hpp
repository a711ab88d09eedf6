// One collective on one group in this service process. Algorithms are written against this, local_rank.hpp, task.hpp
// and window.hpp.
//
// Algorithms keep this order for every block: bytes placed, delivered mark, release to the source, completion of either
// rank.
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

  // Announces the rank's blocks to every service process with members, and matches earlier announcements. The fabric
  // may send the `eager` blocks before they are requested; destinations still get them by pull().
  void announce_send_blocks(LocalRank& rank, EagerSends eager = EagerSends::no) {
    announce(rank, peer::Side::send, eager);
  }
  void announce_receive_blocks(LocalRank& rank) { announce(rank, peer::Side::receive, EagerSends::no); }

  // The same in two steps: matches others' announcements now, and announces the rank's blocks once they exist.
  void hold_send_blocks(LocalRank& rank, EagerSends eager);
  void announce_held_blocks(LocalRank& rank);

  // Around each move. A near one has a window of its own.
  [[nodiscard]] Window::Enter enter_window(LocalRank& rank, bool near = false) {
    return near ? context.near_window.enter(rank.near_window_slots) : context.window.enter(rank.window_slots);
  }
  void leave_window(LocalRank& rank, bool near = false) {
    near ? context.near_window.leave(rank.near_window_slots) : context.window.leave(rank.window_slots);
  }
  // True if the other end of a move is this block, within the node, and the move may have to wait (EngineLimits).
  [[nodiscard]] bool is_near(const Block& other_end) const {
    const EngineLimits& limits = context.config.limits;
    return limits.near_window_moves != 0 && other_end.bytes >= limits.near_window_bytes &&
           context.share_node(context.config.self, context.service_of(other_end.memory.owner));
  }

  // Awaited: pulls the source's block for the rank from the source itself, which may have sent it eagerly.
  [[nodiscard]] Move pull(const LocalRank& rank, GroupRank source) const;
  // Awaited: pushes the rank's block for the destination.
  [[nodiscard]] Move push(const LocalRank& rank, GroupRank destination) const;
  // Awaited: moves any block.
  [[nodiscard]] Move move(const Block& from, const Block& to) const { return Move(context, from, to); }

  // After a pull, in this order:
  void mark_block(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);
  void release(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);
  void count_filled(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);

  // After a push. The destination's service process marks, counts and releases.
  void report_delivered(LocalRank& source, GroupRank destination, const fabric::MoveOutcome& outcome);
  void mark_block(LocalRank& destination, GroupRank source, CompletionStatus status);

  // The last step of an algorithm: completes the rank.
  void complete(LocalRank& rank);

  [[nodiscard]] const Membership& membership() const { return *group.membership(); }
  // Finds ranks other than the source that hold a block.
  [[nodiscard]] Replicas& replicas();
  // Pool for coroutine frames.
  [[nodiscard]] Pool& frames() const { return context.frames; }

  // --- For the engine. ---

  [[nodiscard]] OperationId id() const { return OperationId{group.id(), sequence}; }
  // How the operation ended for a local rank; nullopt while it is open.
  [[nodiscard]] std::optional<CompletionStatus> finished(WorldRank rank) const {
    return group.finished(rank, sequence);
  }

  void add(PostedOperation&& posted, AlgorithmFunction algorithm);
  void remove_completed();
  void drop(GroupRank rank);
  // A local rank has completed this operation before a restart, or is gone: notifies the peers.
  void restored(WorldRank rank);
  void peer_restarted(std::uint32_t peer);
  [[nodiscard]] bool is_over() const;

  // A local rank's block of that source has ended: waiting requests may have an answer now.
  void reconsider_replicas(GroupRank source);
  // A local rank has begun or gone: any waiting request may have an answer now.
  void reconsider_all_replicas();
  // No reader from before this incarnation is left.
  [[nodiscard]] bool is_quiescent() const;

  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  Context& context;
  Group& group;
  const std::uint64_t sequence;
  LocalRanks ranks;
  RemoteBuffers remote_buffers;
  Announcer announcer;
  Matcher matcher;
  std::uint32_t looks = 0;  // times that it was found overdue

 private:
  void begin(LocalRank& rank, peer::Side side, EagerSends eager);
  void announce(LocalRank& rank, peer::Side side, EagerSends eager);

  std::unique_ptr<Replicas> replicas_;  // made if the algorithm passes blocks on
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
  assert(from_.bytes != 0 && from_.bytes == to_.bytes && "both ends of a move have the same number of bytes, not 0");
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
