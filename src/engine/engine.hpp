// The engine of one service process. Posts of local ranks and messages of peers go in; moves, messages, marks and
// completions come out through the fabric's seams. It uses no MPI, sockets, threads or clock. outriggerd, the simulator
// and tests use the same object.
//
// Thread rule: one thread. Entry points only queue work; run() does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_config.hpp"
#include "engine/engine_counters.hpp"
#include "engine/posted_operation.hpp"
#include "fabric/seams.hpp"
#include "protocol/ids.hpp"

namespace outrigger::engine {

struct EngineState;

class Engine {
 public:
  // All objects in `seams` must outlive this.
  Engine(const EngineConfig& config, const fabric::Seams& seams);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Posts an operation of a local rank. Sequence numbers of one rank on one group come in order; groups in any order.
  // An invalid post (unknown algorithm, wrong order, members out of range) completes as `rejected`.
  void post(PostedOperation operation);

  // After a restart: `rank` has completed every operation of `group` below `next_sequence`, except those that are
  // posted again. Peers may still ask about them. Call it after the replayed posts of `rank`, or before them with no
  // receive() in between. Freed groups are restored too, and then forgotten by forget_group().
  void restore_progress(WorldRank rank, GroupId group, std::uint64_t next_sequence);

  // Takes a peer's message. False: malformed; nothing was changed and the caller drops the peer.
  [[nodiscard]] bool receive(SpId from, std::span<const std::byte> message);

  // A peer was replaced by a new incarnation without state. Announces again what the peer may have lost; late messages
  // of the old incarnation are ignored by their epoch.
  void peer_restarted(SpId peer, Epoch epoch);

  // A local rank is gone: drops its operations and cancels their moves. Nothing is completed.
  void drop_rank(WorldRank rank);

  // A local rank has freed a communicator. The group's state is dropped when the last local member has.
  void forget_group(WorldRank rank, GroupId group);

  // Call this periodically. Asks about the oldest operation of each group that has waited since the last call, because
  // a rank may have left it to its native MPI (protocol/native_calls.hpp). If so, the operation fails for waiting
  // ranks. False if there was none.
  bool look_for_passed();

  // Runs until nothing is ready. False if nothing ran.
  bool run();

  // Operations that are posted and not completed by a local rank, or announced and not posted yet.
  [[nodiscard]] std::size_t open_operations() const;

  // Checks the engine's invariants (counters and states, window and moves in flight). nullopt when all hold.
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  // True when no operation, task, window slot or credit is held.
  [[nodiscard]] bool idle() const;

  [[nodiscard]] EngineCounters counters() const;

 private:
  std::unique_ptr<EngineState> state_;
};

}  // namespace outrigger::engine
