// The engine of one service process: what its ranks have posted and what peers have announced go in, moves, messages,
// marks and completions come out through the seams of the fabric. Pure: no MPI, sockets, threads or clock. The same
// object runs in outriggerd, in the simulator and in tests.
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
  // All that `seams` names must outlive this.
  Engine(const EngineConfig& config, const fabric::Seams& seams);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A local rank has posted. Sequence numbers of one rank on one group come in order; groups in any order. What the
  // engine cannot accept (unknown algorithm, wrong order, members out of range) is completed as `rejected`.
  void post(PostedOperation operation);

  // After a restart: `rank` has completed every operation of `group` below `next_sequence` except those that are
  // posted again. Lets a peer's late question about a finished operation be answered. Call it after the posts of
  // `rank` that are replayed, or before them with no receive() in between. Groups that the rank has freed are restored
  // too, and then forgotten by forget_group().
  void restore_progress(WorldRank rank, GroupId group, std::uint64_t next_sequence);

  // A peer's message. False: malformed; nothing was changed and the caller drops the peer.
  [[nodiscard]] bool receive(SpId from, std::span<const std::byte> message);

  // A peer service process has been replaced by a new incarnation that knows nothing. What it may have lost is said
  // again; what the old one said and has not arrived is ignored by its epoch.
  void peer_restarted(SpId peer, Epoch epoch);

  // A local rank is gone: its operations are dropped, their moves cancelled, nothing is completed.
  void drop_rank(WorldRank rank);

  // A local rank has freed a communicator. When the last local member has, the group's state is dropped.
  void forget_group(WorldRank rank, GroupId group);

  // Now and then: of each group, the oldest operation that has been waited for since the last time is asked about,
  // where a rank may have left it to its MPI (protocol/native_calls.hpp). For those who wait it fails then. True: one
  // was.
  bool look_for_passed();

  // Resumes what is ready until nothing is. True when anything ran.
  bool run();

  // Operations with a local part posted and not completed, or announced and not yet posted.
  [[nodiscard]] std::size_t open_operations() const;

  // Checks the engine's own invariants (counts against states, window against moves in flight). Empty when all hold.
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  // True when no operation, task, window slot or credit is held.
  [[nodiscard]] bool idle() const;

  [[nodiscard]] EngineCounters counters() const;

 private:
  std::unique_ptr<EngineState> state_;
};

}  // namespace outrigger::engine
