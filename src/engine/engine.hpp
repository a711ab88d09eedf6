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
#include "protocol/course.hpp"
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

  // After a restart, of a group that a local rank has joined: `plan` is the newest that any of its ranks has. Heeded
  // where this service process leads the group: all go by it, a change that was under way has not been, and trials end.
  void restore_course(GroupId group, const CoursePlan& plan);

  // A local rank is gone: its operations are dropped, their moves cancelled, nothing is completed.
  void drop_rank(WorldRank rank);

  // A local rank has freed a communicator. When the last local member has, the group's state is dropped.
  void forget_group(WorldRank rank, GroupId group);

  // Which courses this service process would have (protocol/course.hpp): of every communicator, and of one beside that.
  // Busy and failing are what any service process of a communicator wishes, small what all do. Ranks are held for a
  // change as soon as it can be; one that cannot be yet is tried again by retry_changes().
  void wish(const Suspended& everywhere);
  void wish(GroupId group, const Suspended& suspended);
  [[nodiscard]] bool wants_retry() const;
  void retry_changes();

  // Now and then: of each group, the oldest operation that has been waited for since the last time is asked about,
  // where a rank may have left it to its MPI (protocol/native_calls.hpp). For those who wait it fails then. True: one
  // was.
  bool look_for_passed();

  // A local rank has calls on a group that its course decides, though it has posted none.
  void join(WorldRank rank, GroupId group, std::shared_ptr<const std::vector<WorldRank>> members);
  // Two ways are to be tried in turn. Heeded from the group's first rank, at its service process.
  void ask_trial(WorldRank rank, GroupId group, const TrialRequest& request);
  // What an earlier run has chosen, until a trial shows otherwise. Heeded as the above, where nothing has been chosen.
  void recall(WorldRank rank, GroupId group, const Choice& choice);
  // The trial of that number costs too much: it ends, for the way that was usual. Heeded as the above.
  void give_up_trial(WorldRank rank, GroupId group, std::uint16_t trial);
  // A local rank has been through the trial of that number.
  void measured(WorldRank rank, GroupId group, std::uint16_t trial, const TrialTimes& times);

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
