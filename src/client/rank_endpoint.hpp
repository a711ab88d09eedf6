// What a client is made of: parts that each look after one thing, and what takes several of them. It outlives the
// Client as an inert shell when groups or operations do, and it is inert in forked children: then nothing shared is
// touched any more. Which lock guards what: endpoint_lock.hpp.
#pragma once

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

// The word by which a service process proves that it reaches this very process. In a page of its own, in which nothing
// of the program's can be hit.
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
  UniqueFd segment_fd;  // invalid: service processes are on a DPU
  UniqueFd doorbell;
  ProbePointer probe;
  XpmemSegment xpmem;
  std::unique_ptr<RankNetwork> network;  // null: service processes are on this node
};

class RankEndpoint : public GroupOwner, public std::enable_shared_from_this<RankEndpoint> {
 public:
  explicit RankEndpoint(EndpointParts parts);
  ~RankEndpoint() override = default;
  // Goodbye; afterwards inert. Once, by ~Client.
  void shut_down();

  // As Client says. All without the lock.
  [[nodiscard]] std::shared_ptr<const Group> define_group(GroupId id, const std::vector<WorldRank>& members,
                                                          GroupRank me);
  [[nodiscard]] PendingOperationPtr post(const OperationRequest& request);
  [[nodiscard]] NativeTallies& native_tallies() { return native_tallies_; }
  [[nodiscard]] bool poll(PendingOperation& operation);
  void wait_for_completion(std::chrono::microseconds at_most, bool helps);
  [[nodiscard]] std::optional<std::string> fatal();
  [[nodiscard]] bool fatal_was_said() const;
  [[nodiscard]] ClientStatistics statistics() const;
  [[nodiscard]] ClientUsage usage();
  void retire_group(const Group& group) noexcept override;
  void drop(std::unique_ptr<PendingOperation> operation) noexcept override;
  void send(const Group& group, const steer::Notice& notice) noexcept override;
  [[nodiscard]] bool job_ended() noexcept override;

  // What concerns one part only.
  [[nodiscard]] const WelcomeBody& welcome() const { return welcome_; }
  [[nodiscard]] ControlChannel& control() { return control_; }
  [[nodiscard]] Regions& regions() { return regions_; }
  [[nodiscard]] StagingMemory& staging() { return staging_; }
  [[nodiscard]] HeapRegions& heap() { return heap_; }
  [[nodiscard]] Lending& lending() { return lending_; }

  // Around fork(), which the lock is held through.
  void before_fork();
  void after_fork_in_parent() { lock_.mutex.unlock(); }
  void after_fork_in_child();

 private:
  [[nodiscard]] SegmentHeader& header() const { return segment_.view().header(); }
  void wait_for_growth();
  void leave();
  // Of an operation that is done.
  void give_back_staging(const PendingOperation& operation);
  // Kept ones that others have read. Without the lock.
  void let_go(std::vector<std::unique_ptr<PendingOperation>> read);

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
