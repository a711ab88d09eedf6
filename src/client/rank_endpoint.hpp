// A rank's connection to its service process, without MPI: it describes memory, posts operations and completes them.
// Each member object has one task; this class has the functions that need several of them. endpoint_lock.hpp says which
// members the lock guards.
//
// Used by the preload library and by tests. It is loaded into users' programs, so it has no threads but the copier
// (copier.hpp), no logging and few dependencies. The public functions for operations throw no exceptions.
//
// Attached by attach() (start/attach.hpp), whose handle ends the connection. Groups and operations may outlive that:
// then the endpoint stays as an inert shell. In a forked child it is inert, too: it posts and allocates nothing (null
// pointers), poll() is false, fatal() is empty.
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "client/copies/rank_lending.hpp"
#include "client/endpoint_lock.hpp"
#include "client/memory/argument_memory.hpp"
#include "client/memory/heap_regions.hpp"
#include "client/memory/mapped_segment.hpp"
#include "client/memory/regions.hpp"
#include "client/memory/staging_memory.hpp"
#include "client/memory/xpmem_segment.hpp"
#include "client/network/call_listener.hpp"
#include "client/network/rank_network.hpp"
#include "client/operations/client_group.hpp"
#include "client/operations/doorbell.hpp"
#include "client/operations/native_tally.hpp"
#include "client/operations/operation_request.hpp"
#include "client/operations/pending_operation.hpp"
#include "client/operations/rank_posts.hpp"
#include "client/start/control_channel.hpp"
#include "client/statistics.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

// A service process writes this word to prove that it reaches this process. It has its own page, so that a wrong write
// cannot damage the program's data.
struct Probe {
  std::atomic<std::uint64_t> word{0};
};
struct UnmapProbe {
  void operator()(Probe* probe) const;
};
using ProbePointer = std::unique_ptr<Probe, UnmapProbe>;

struct EndpointParts {
  ControlSocket socket;
  WorldRank world_rank;
  std::uint32_t world_size = 0;
  WelcomeBody welcome;
  Lending::Allowed lending;
  MappedSegment segment;
  UniqueFd segment_fd;  // invalid if service processes are on a DPU
  UniqueFd doorbell;
  ProbePointer probe;
  XpmemSegment xpmem;
  std::unique_ptr<RankNetwork> network;  // nullptr if service processes are on this node
};

class RankEndpoint : public GroupOwner, public std::enable_shared_from_this<RankEndpoint> {
 public:
  explicit RankEndpoint(EndpointParts parts);
  ~RankEndpoint() override = default;
  // Detaches; the endpoint is inert afterwards. Operations that are not done are abandoned. Memory that the program has
  // not released stays where it is, and service processes unmap it.
  void shut_down() noexcept;

  // --- without the lock ---
  // `members[i]` is the world rank of group rank i. The group's memory is kept until the last pointer is dropped; then
  // the service processes are told to forget it. May wait for the keeper. nullptr: there is no memory.
  [[nodiscard]] std::shared_ptr<const Group> define_group(GroupId id, const std::vector<WorldRank>& members,
                                                          GroupRank me) noexcept;
  // Hands an operation to the service process. There is no limit on operations in flight: if all slots of a DPU's
  // process are in use, a later call posts it. Never waits for another rank. Waits for the keeper if argument memory
  // has to grow, and at the first use of the program's mapped memory.
  //
  // Returns nullptr if no memory is left for the arguments, or if the request is invalid. It must have a group of this
  // endpoint. Extents must be one per member. Offsets must not overflow. Without kReachCma the range of all blocks must
  // be inside one region; the caller packs other layouts into staging memory.
  //
  // An operation that waits for argument memory that is never free ends as `rejected`.
  //
  // `rested`: one that rest() has kept, to be used again.
  [[nodiscard]] PendingOperationPtr post(const OperationRequest& request,
                                         PendingOperationPtr rested = nullptr) noexcept;
  // The result of an operation that poll() has found done has been read. Drops the operation, or keeps it for the next
  // post without what it uses.
  void rest(PendingOperationPtr& operation) noexcept;
  // True if it is done; then its result is valid. Usually one load from the rank's own memory. Also posts operations
  // that wait for slots.
  [[nodiscard]] bool poll(PendingOperation& operation) noexcept;
  // Sleeps until an operation of this rank is done, the time is over, or, if `helps`, Lending::help() is wanted.
  // May return early.
  void wait_for_completion(std::chrono::microseconds at_most, bool helps = false) noexcept;
  // How service processes reach the blocks for so many members. With kReachRdma any range that can be registered is
  // a region. `side`: the result of an earlier call, or a new one.
  void find(const BufferLayout& layout, std::uint32_t members, SideMemory& side) noexcept {
    if (!side.holds_for(layout, members, regions_.state())) look_up(layout, members, side);
  }
  // The region that holds the whole range, or kPrivateRegion.
  [[nodiscard]] RegionId region_of(const void* begin, std::uint64_t bytes) noexcept {
    SideMemory side;
    find({begin, 0, bytes, {}}, 1, side);
    return side.is_private() || side.reached == SideMemory::Reached::never ? kPrivateRegion : side.place.region;
  }
  // The text of what ended the job (a lost service process or keeper); empty while all is well. Looks at the
  // connection at most every few milliseconds, so it may be called in a waiting loop.
  [[nodiscard]] std::optional<std::string> fatal() noexcept;
  // Has the keeper printed that text? Otherwise it is for the caller to tell.
  [[nodiscard]] bool fatal_was_said() const;
  [[nodiscard]] ClientStatistics statistics() const;
  [[nodiscard]] ClientUsage usage();
  void retire_group(const Group& group) noexcept override;
  void drop(std::unique_ptr<PendingOperation> operation) noexcept override;
  void send(const Group& group, const steer::Notice& notice) noexcept override;
  [[nodiscard]] bool job_ended() noexcept override;

  // Access to single parts.
  [[nodiscard]] NativeTallies& native_tallies() { return native_tallies_; }
  [[nodiscard]] const WelcomeBody& welcome() const { return welcome_; }
  // True if service processes reach this rank's private memory in this way: kReachCma, kReachXpmem or kReachRdma. With
  // kReachXpmem they copy a rank's own block. With kReachRdma they run on a DPU, and find() registers memory.
  [[nodiscard]] bool reached_by(std::uint32_t reach) const { return (welcome_.reach & reach) != 0; }
  [[nodiscard]] ControlChannel& control() { return control_; }
  [[nodiscard]] Regions& regions() { return regions_; }
  [[nodiscard]] StagingMemory& staging() { return staging_; }
  [[nodiscard]] HeapRegions& heap() { return heap_; }
  [[nodiscard]] Lending& lending() { return lending_; }

  // Around fork(); the lock is held during it.
  void before_fork();
  void after_fork_in_parent() {
    heap_.end_at_fork();
    lock_.mutex.unlock();
  }
  void after_fork_in_child();

 private:
  [[nodiscard]] SegmentHeader& header() const { return segment_.view().header(); }
  void look_up(const BufferLayout& layout, std::uint32_t members, SideMemory& side) noexcept;
  void wait_for_growth();
  void leave();
  [[nodiscard]] bool collect(PendingOperation& operation);
  // For the staging memory of an operation that is done.
  void give_back_staging(const std::array<void*, 2>& staging);
  // Regions of a heap's earlier generations, and kept operations that others have read.
  struct Outdated {
    std::vector<Region> regions;
    std::vector<std::unique_ptr<PendingOperation>> read;
  };
  // Without the lock.
  void let_go(Outdated outdated);
  struct BothSides {
    const SideMemory& send;
    const SideMemory& receive;
  };
  // Under the lock. The result of find(), or a new one. A registration has one user more afterwards.
  [[nodiscard]] const SideMemory& use(const BufferLayout& layout, std::uint32_t members, const SideMemory& found,
                                      std::optional<SideMemory>& found_now);
  // All other ranks of the group have posted it, as far as is known.
  [[nodiscard]] bool is_awaited(const OperationId& operation) const;
  // Under the lock. Adds the places of blocks and arguments to the body, and posts it. False if they are invalid.
  [[nodiscard]] bool place(const OperationRequest& request, const BothSides& sides, SlotRequestBody& body,
                           PendingOperation& operation);

  EndpointLock lock_;
  const std::uint64_t serial_;  // of all endpoints of this process, from 1
  const WelcomeBody welcome_;
  const ProbePointer probe_;
  XpmemSegment xpmem_;
  MappedSegment segment_;
  std::unique_ptr<RankNetwork> network_;  // of a DPU, also after that has been left
  ControlChannel control_;
  Doorbell doorbell_;
  Regions regions_;
  ArgumentMemory arguments_;
  StagingMemory staging_;
  Posts posts_;
  NativeTallies native_tallies_;
  HeapRegions heap_;
  Lending lending_;
  CallListener calls_;
};

// fork.cpp: which endpoints fork() and exit() concern.
void watch_forks(RankEndpoint& endpoint);
void unwatch_forks(RankEndpoint& endpoint);

}  // namespace outrigger::client
