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

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "client/operations/native_tally.hpp"
#include "client/operations/operation_request.hpp"
#include "client/start/attach_options.hpp"
#include "client/start/keeper_start.hpp"
#include "client/statistics.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/shared_heap.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger::client {

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

  // The group's calls that are native for their counts; `operations` have been posted on it. Given up before the client
  // is destroyed.
  [[nodiscard]] NativeTally native_tally(const GroupId& group, std::uint64_t operations);

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
  // Or its events (trace/event_memory.hpp), which the service process of this rank adds to: it says there when it does.
  // `what`: counts or trace; or, without a descriptor, trace_settle: what a service process on a DPU has noted until
  // now is to be in that memory, which says when it is.
  void show(ControlKind what, int fd = -1);

  // The text of what ended the job (a lost service process or keeper); empty while all is well. Looks at the
  // connection at most every few milliseconds, so it may be called in a waiting loop.
  [[nodiscard]] std::optional<std::string> fatal();
  // Has the keeper printed that text? Otherwise it is for the caller to tell.
  [[nodiscard]] bool fatal_was_said() const;

  using Statistics = ClientStatistics;
  [[nodiscard]] Statistics statistics() const;

  using Usage = ClientUsage;
  [[nodiscard]] Usage usage() const;

 private:
  explicit Client(std::shared_ptr<RankEndpoint> endpoint);
  const std::shared_ptr<RankEndpoint> endpoint_;
};

}  // namespace outrigger::client
