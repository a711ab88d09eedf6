// What a rank does without MPI: find its service process, describe memory, post operations, see them end.
//
// Used by the preload library, by tests and by anything else that wants to speak for a rank. Preloaded into users'
// programs, so: no threads but the copier (copier.hpp), no logging, no exceptions out of it, few dependencies.
//
// Thread rule: every member may be called from any thread.
// Blocking: attach(), allocate_staging() and define_group() may wait for the keeper (bounded by timeouts), and so do
// post() when argument memory has to grow, and the first post() or region_of() with memory from allocate(). Neither
// post() nor poll() waits for another rank or for a slot.
// fork(): in a child the client is inert. It posts and allocates nothing (null pointers), poll() is false, fatal() is
// empty, its destructor says nothing to anybody.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "client/operations/native_spell.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/collective.hpp"
#include "protocol/control.hpp"
#include "protocol/course.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"
#include "protocol/settings.hpp"
#include "protocol/shared_heap.hpp"
#include "protocol/wire_route.hpp"

namespace outrigger::client {

struct KeeperOptions {
  std::string daemon_path;  // of outriggerd
  std::uint32_t world_size = 0;
  std::uint32_t local_size = 0;    // ranks that will say hello
  std::uint32_t nodes = 1;         // of the job
  std::uint32_t keepers_here = 1;  // nodes that this machine pretends to be
  std::uint32_t number_here = 0;   // which of them this is, from 0
  std::uint32_t services = 0;      // service processes to start; 0: by itself
  std::string service_cpus;        // "7" or "6,7": cores to pin them to; empty: cores free of ranks
  std::string claims;              // SCOPE:JOB, by which it tells other jobs which cores it has; empty: it does not
  std::uint32_t reach_allowed = kReachAll;
  // For the program to go to the background; and from then on for all local ranks to be served.
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  std::string dpu;  // HOST:PORT of the `outriggerd dpu` for this node; empty: none
  Secret dpu_secret{};
};

// Where a node's ranks meet their keeper. Plain data, to be told to the ranks of a node.
struct KeeperAddress {
  std::array<char, 48> name{};  // abstract Unix socket, without the leading NUL, NUL terminated
  Secret secret{};
};

// Where ranks can connect already, to a keeper that is still to be started; when it goes unused, those who have
// connected find themselves alone, and nobody else can.
struct KeeperDoor {
  KeeperAddress address;
  UniqueFd listener;
};

[[nodiscard]] Result<KeeperDoor> open_keeper_door();

// Starts a keeper (double fork, own process group, no inherited descriptors or preload, affinity reset) and returns
// once it runs. The keeper ends by itself when no rank comes or all ranks have gone.
[[nodiscard]] Status start_keeper(const KeeperOptions& options, KeeperDoor door);
// With a door of its own.
[[nodiscard]] Result<KeeperAddress> start_keeper(const KeeperOptions& options);

struct AttachOptions {
  KeeperAddress keeper;
  WorldRank world_rank;
  std::uint32_t world_size = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  // The keeper's limit. It is given a moment longer, in which it says why nobody is served.
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  bool offer_xpmem = true;    // where it is to be had
  bool offer_exports = true;  // to a DPU: exported memory handles, where they are to be had
  bool wait_copies = true;    // threads that wait copy for the service process, where there are copiers
  bool huge_pages = true;     // for memory that is copied from again and again, where there are copiers
  bool dpu = false;           // the keeper was started with a DPU
  std::string transports;     // to it, as UCX_TLS; empty: what UCX's own settings name
};

// One side of an operation: where this rank's blocks are. The extents are copied by post(); the blocks must stay valid
// until the operation is done.
using BufferLayout = BlockLayout<const void*, std::span<const PairExtent>>;

// A communicator that operations are posted on. Made by Client::define_group; shared by the operations in flight.
class Group;

struct OperationRequest {
  std::shared_ptr<const Group> group;
  std::uint64_t sequence = 0;
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;
  std::uint32_t root = 0;
  // Of a reduction. What is sent is the whole vector then, what is received the rank's part of the result, both
  // without stride and apart: a caller that reduces in place sends from a copy.
  std::optional<Reduction> reduction;
  std::uint64_t part_offset_bytes = 0;  // of an ireduce_scatter: where in the vector that part begins
  std::uint64_t configuration = 0;      // digest of what must be equal on every rank; part of the operation's digest
  BufferLayout send;
  BufferLayout receive;
  // Of a collective of neighbors: their ranks in the group, in order and each once, with an extent in the layout for
  // each; copied by post().
  std::span<const std::uint32_t> send_neighbors;
  std::span<const std::uint32_t> receive_neighbors;
  bool by_course = false;          // courses().next() has been asked about it
  bool own_block_done = false;     // the caller copies its own block
  bool receive_from_root = false;  // the receive layout is of the root's block; there are no others
  // Staging memory that this operation uses: the client's from post() on, if that succeeds, and given back once the
  // operation is done and dropped.
  std::array<void*, 2> staging{};
  // All blocks with bytes are in it: the operation counts as done when its receive blocks are filled, though others
  // have yet to read what it sends.
  bool kept = false;
  bool timed = false;  // the result has times, unless a DPU serves the rank
};

struct OperationResult {
  CompletionStatus status = CompletionStatus::ok;
  std::array<std::uint64_t, kReachCount> bytes_by_reach{};
  std::uint32_t late_announcements = 0;
  std::uint64_t done_ns = 0;  // CLOCK_MONOTONIC when the service process was done; 0: it has not said
  std::uint64_t late_ns = 0;  // how long this rank posted after the first one of the group
};

// An operation in flight. Owned by the caller, who polls it until done and then drops it. Of one that is kept
// (OperationRequest), the client holds what others have yet to read, from then on; Usage::kept. Dropping an
// operation that is not done is allowed at the end of the program only: its memory is then kept until the client is
// destroyed.
class PendingOperation;
struct PendingOperationDeleter {
  void operator()(PendingOperation* operation) const;
};
using PendingOperationPtr = std::unique_ptr<PendingOperation, PendingOperationDeleter>;

class RankEndpoint;

// What the first rank of a node has to do for it.
class NodeLeader {
 public:
  explicit NodeLeader(RankEndpoint& endpoint) : endpoint_(endpoint) {}
  // In a job of several nodes, right after attach(): what the others need to know of this one. To be exchanged.
  [[nodiscard]] Result<std::vector<std::byte>> descriptor(std::uint32_t timeout_ms);
  // All nodes' descriptors, one after the other; `node` says which is ours.
  [[nodiscard]] Status take_job_map(std::span<const std::byte> descriptors, std::uint32_t node,
                                    std::uint32_t timeout_ms);
  // The keeper has died, and service processes go on without it, as Client::fatal() has found. To be said.
  [[nodiscard]] bool is_unprotected() const;

 private:
  RankEndpoint& endpoint_;
};

// Which collectives of a group go to service processes at present (protocol/course.hpp).
class Courses {
 public:
  explicit Courses(RankEndpoint& endpoint) : endpoint_(endpoint) {}
  // The rank calls a collective on the group that its course decides; one call of a group at a time. What this call is
  // to do, the same on all ranks. While service processes agree on another course the call waits for them, a few
  // messages long, and for no rank. Null: the group has no course.
  // `counted`: a spell has counted the call.
  [[nodiscard]] const Course* next(const Group& group, bool counted);
  // The call for which next() has said `course` was native, and the next ones of its kind are, too, `most` at most.
  [[nodiscard]] NativeSpell spell(const Group& group, const Course& course, std::uint64_t most);
  // The collective is native for small blocks, and this rank has called it with others: service processes may take it
  // back.
  void tell_of_larger_blocks(const Group& group, Collective collective);
  // The rank has called such collectives, but not posted any: service processes hear of the group.
  void join(const Group& group);
  // Two ways are to be tried in turn (protocol/choice.hpp).
  void ask_trial(const Group& group, const TrialRequest& request);
  // The one that is under way costs too much.
  void give_up(const Group& group, const Trial& trial);
  // How an earlier run has done such calls in the end.
  void recall(const Group& group, CallKey key, Way way);
  // What has been chosen, as of the last call of the group.
  [[nodiscard]] static std::span<const Choice> choices(const Group& group);
  // How many calls of the group have gone by its course, or would have, had this rank an entry for it.
  [[nodiscard]] std::uint64_t calls(const Group& group);
  // The rank has been through one.
  void tell_times(const Group& group, const Trial& trial, const TrialTimes& times);

 private:
  RankEndpoint& endpoint_;
};

class Client {
 public:
  // Connects to the keeper and waits until the service processes know this rank.
  [[nodiscard]] static Result<std::unique_ptr<Client>> attach(const AttachOptions& options);
  // Says goodbye. Operations that are not done are abandoned. Memory from allocate() that was not released stays where
  // it is, and no service process maps it any more.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] const WelcomeBody& welcome() const;
  // Service processes read and write this rank's private memory in this way: kReachCma; kReachXpmem (then a rank's own
  // block is left to them); kReachRdma (they run on a DPU, and region_of() registers any memory that can be).
  [[nodiscard]] bool reached_by(std::uint32_t reach) const { return (welcome().reach & reach) != 0; }
  // A thread of this process makes copies for its service process (started by post() when there is work for it). Then
  // a rank's own block in private memory is better left to the service process.
  [[nodiscard]] bool copier() const;
  [[nodiscard]] NodeLeader node_leader();

  // Memory of ProgramMemory, which releases it. Service processes map it from the first operation on that uses it.
  // nullptr if they cannot map any or there is none; use ordinary memory then.
  [[nodiscard]] void* allocate(std::uint64_t bytes);
  // Has this rank ever posted an operation?
  [[nodiscard]] bool has_posted() const;
  // Service processes map the shared heap of this process, now and after each fork() that makes it begin anew. False:
  // there is none, or they cannot. `heap` must outlive the client.
  bool share_heap(const SharedHeap& heap);
  // The region that holds the whole range, or kPrivateRegion. With kReachRdma any range that can be registered is one.
  [[nodiscard]] RegionId region_of(const void* begin, std::uint64_t bytes) const;

  // Temporary memory of the same kind for packing and unpacking (any size, no alignment beyond 64 bytes), cached.
  [[nodiscard]] void* allocate_staging(std::uint64_t bytes);
  void release_staging(void* memory);

  // `members[i]` is the world rank of group rank i. The group's memory is kept until the last pointer is dropped; then
  // the service processes are told to forget it.
  [[nodiscard]] std::shared_ptr<const Group> define_group(GroupId id, std::vector<WorldRank> members, GroupRank me);

  [[nodiscard]] Courses courses() { return Courses(*endpoint_); }

  // Hands an operation to the service process, however many it has; only one on a DPU gets the next when a slot is
  // free, at a later call. Never fails for want of slots; nullptr only when no memory is left for its arguments, or for
  // a request that makes no sense: no group or another client's, extents that are not one per member, offsets that
  // overflow, or a layout in private memory (a range over all blocks that is not inside one region) without kReachCma;
  // the caller packs into staging where that is so. An operation that waited for arguments in vain ends as `rejected`.
  [[nodiscard]] PendingOperationPtr post(const OperationRequest& request);

  // Is it done? One load of the rank's own memory in the common case; posts what is waiting for slots.
  [[nodiscard]] bool poll(PendingOperation& operation);
  // Of an operation that is done.
  [[nodiscard]] OperationResult result(const PendingOperation& operation) const;

  // Sleeps until an operation of this rank is done, the time is over, or, for who `helps`, help() is wanted. May return
  // early.
  void wait_for_completion(std::chrono::microseconds at_most, bool helps = false);
  // The calling thread has nothing to do but wait. True: it may help, because the program has computed next to nothing
  // since its last post; then it calls leave_wait() in the end, and until then help() between its looks: it makes one
  // copy for the service process, a few hundred KiB at most, where one is wanted. True: it has, so look again.
  [[nodiscard]] bool enter_wait();
  void leave_wait();
  bool help();
  // The same for a thread that tests, where there is no copier: false without looking where there is one.
  bool help_where_alone();

  // Gives the keeper of this node memory that holds what this rank counts (report/ledger.hpp): it outlives the rank.
  // Or its events (trace/memory.hpp), which the service process of this rank adds to: it says there when it does.
  // `what`: counts or trace; or, without a descriptor, trace_settle: what a service process on a DPU has noted until
  // now is to be in that memory, which says when it is.
  void show(ControlKind what, int fd = -1);

  // The text of what ended the job (a lost service process or keeper); empty while all is well. Looks at the
  // connection at most every few milliseconds, so it may be called in a waiting loop.
  [[nodiscard]] std::optional<std::string> fatal();
  // Has the keeper printed that text? Otherwise it is for the caller to tell.
  [[nodiscard]] bool fatal_was_said() const;

  struct Statistics {
    std::uint64_t helped_bytes = 0;       // copied by help() so far
    std::uint64_t huge_bytes = 0;         // of the program's buffers, moved to huge pages so far
    std::uint64_t service_ran_ns = 0;     // how long its service process has run
    std::uint64_t service_waited_ns = 0;  // and wanted to, while others had its core
    std::uint32_t service_restarts = 0;   // how often another one has taken its place
    std::int32_t service_other_job = 0;   // a process of another job that has had its core, too; -1: not known which
    std::string service_warning;          // why nothing is offloaded any more; empty: it is
    std::vector<WireRoute> wire_routes;   // how the data of this rank's service process has travelled to other nodes so
                                          // far, each way once; at most kMaxWireRoutes
  };
  [[nodiscard]] Statistics statistics() const;

  // Slots, staging and argument bytes in use. `without_slot`: operations not done that are in overflow records, or wait
  // here. `kept`: operations that were kept, and dropped, which others have yet to read from: to be waited for before
  // the end.
  struct Usage {
    std::size_t slots = 0;
    std::size_t without_slot = 0;
    std::size_t kept = 0;
    std::uint64_t argument_bytes = 0;
    std::uint64_t staging_bytes = 0;
    std::size_t regions = 0;
  };
  [[nodiscard]] Usage usage() const;

 private:
  explicit Client(std::shared_ptr<RankEndpoint> endpoint);
  const std::shared_ptr<RankEndpoint> endpoint_;
};

}  // namespace outrigger::client
