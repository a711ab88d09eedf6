// The engine of one service process: what its ranks have posted and what peers have announced go in, moves, messages,
// marks and completions come out through the fabric. Pure: no MPI, sockets, threads or clock. The same object runs in
// outriggerd, in the simulator and in tests.
//
// Thread rule: one thread. Entry points only queue work; run() does it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/collective.hpp"
#include "protocol/course.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::engine {

class Registry;
struct EngineState;

// Every queue, window and table of the engine, by name. What happens at a limit stands beside it.
struct EngineLimits {
  // Moves in flight per service process. At the limit a block waits in ring order; only moves with both ends posted
  // hold a slot, so a full window always drains.
  std::uint32_t window_moves = 16;
  // Operations announced to one peer service process per group and not yet released by it. At the limit further
  // announcements of that group to that peer wait here, in sequence order; a sequence not above one already announced
  // goes at once, so that a rank that is ahead never holds up one that is behind. At least one.
  std::uint32_t announce_credits = 64;
  // Peers' announcements without any bytes that wait, per group, for a local rank to post. They need no credit; beyond
  // the limit they are dropped, and only the named error for ranks that disagree is lost. Also blocks asked for, per
  // operation whose members are not known yet: beyond the limit the answer is "not here", and who asked is forgotten.
  std::uint32_t waiting_announcements = 65536;
  // Freed groups remembered, so that a restarted peer's late question about one is answered. Beyond it the oldest is
  // forgotten, and such a question waits for ever.
  std::uint32_t forgotten_groups = 4096;
  // A large block is scattered, a share to each node but its source's, where shares have at least so many bytes. So has
  // each rank's slice of a reduction. The same in all service processes.
  std::uint64_t split_bytes = std::uint64_t{16} << 10;
  // Such a share, or slice, is cut into segments of about so many bytes: a node passes on what it has while the rest
  // comes. The same in all service processes.
  std::uint64_t segment_bytes = std::uint64_t{64} << 10;
  // Slices of an allreduce up to so long are sent before they are asked for, and contributions to them. Longer ones
  // gain nothing where processors copy, as their bytes do not travel with a message. The same in all service processes.
  std::uint64_t short_slice_bytes = 4096;
  // Largest message to a peer, in bytes. Longer announcements (v-forms to a peer that serves many ranks) are split.
  std::uint32_t message_bytes = 32768;
};

struct EngineConfig {
  SpId self;
  Epoch epoch{1};
  std::vector<SpId> sp_of_rank;  // indexed by world rank: the service process that serves it
  // Indexed by service process: its node, from 0. Those of one node reach all memory of its ranks without the network.
  // Empty: each has a node of its own.
  std::vector<std::uint32_t> node_of_sp;
  EngineLimits limits;
  const Registry* registry = nullptr;  // null: the built-in algorithms
};

// Where a rank's blocks for its peers are. Plain data, owned by the operation.
using OwnedBlocks = outrigger::BlockLayout<MemoryRef, std::vector<PairExtent>>;
struct BlockLayout : OwnedBlocks {
  std::optional<GroupRank> only;  // the block is for (or from) this peer alone; there are no extents
  GroupRank first;                // the block is for peers from this one on alone; there are no extents
  // Of a collective of neighbors: who they are, in order and each once, also those without bytes. Others have none.
  std::vector<GroupRank> neighbors;

  [[nodiscard]] std::uint64_t bytes(GroupRank peer) const {
    return peer < first || (only && *only != peer) ? 0 : OwnedBlocks::bytes(peer.value());
  }
  [[nodiscard]] std::uint64_t address(GroupRank peer) const { return base.address + offset_bytes(peer.value()); }
  [[nodiscard]] Block block(GroupRank peer) const {
    Block result{base, bytes(peer)};
    result.memory.address = address(peer);
    return result;
  }
};

// A collective that a local rank has posted, decoded and bounds-checked by the service.
struct PostedOperation {
  WorldRank rank;
  SlotIndex slot;
  OperationId id;
  std::shared_ptr<const std::vector<WorldRank>> members;  // the group, indexed by group rank
  GroupRank me;
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;
  std::uint32_t root = 0;
  std::uint64_t digest = 0;
  BlockLayout send;
  BlockLayout receive;
  // Of a reduction, and of nothing else. What is sent is the whole vector then, for everybody (stride 0); what is
  // received as much of the result as the rank gets, elsewhere: the rank contributes from a copy where it reduces in
  // place.
  std::optional<Reduction> reduction;
  std::uint64_t part_offset_bytes = 0;  // of a reduce_scatter: where in the vector what is received begins
  bool own_block_done = false;          // the rank copies its own block itself
  bool kept = false;                    // its memory stays as it is until complete(), whatever the rank is told before
  bool by_course = false;               // the group's course may make such calls native
  std::vector<std::uint8_t> delivered;  // marks found at a replay, one per group rank; empty: none
};

// What one engine has done and held since it was made. Totals and highest values; nothing here is per rank or per peer.
struct EngineCounters {
  struct Messages {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kMessageKinds = 14;  // as peer::Body
  std::array<Messages, kMessageKinds> sent{};
  std::array<Messages, kMessageKinds> received{};
  std::uint64_t moves = 0;
  std::uint64_t moved_bytes = 0;
  std::uint64_t reductions = 0;  // of two blocks each
  std::uint64_t reduced_bytes = 0;
  std::uint64_t most_inbound = 0;                // messages received and not yet looked at
  std::uint64_t most_kept_announcements = 0;     // of one operation, for local ranks that have not posted
  std::uint64_t most_announcements_waiting = 0;  // of ours to one peer, for a credit
  std::uint64_t most_frames = 0;                 // coroutines alive
};

class Engine {
 public:
  Engine(const EngineConfig& config, fabric::Fabric& fabric);
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
