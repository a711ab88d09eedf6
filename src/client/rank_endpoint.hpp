// What a client is made of. It outlives the Client as an inert shell when groups or operations do, and it is inert in
// forked children: then nothing shared is touched any more.
//
// Locks: `mutex_` guards everything below it and is held for a few hundred nanoseconds (longer only when argument
// memory grows: no waiting for others then either). The control channel has its own; it is taken under `mutex_` only by
// attempts that do not wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/client.hpp"
#include "client/copies/copier.hpp"
#include "client/copies/wait_helper.hpp"
#include "client/memory/huge_pages.hpp"
#include "client/memory/mapped_segment.hpp"
#include "client/memory/range_allocator.hpp"
#include "client/memory/region.hpp"
#include "client/memory/registration_cache.hpp"
#include "client/memory/xpmem_segment.hpp"
#include "client/network/rank_network.hpp"
#include "client/operations/group.hpp"
#include "client/operations/overflow_chain.hpp"
#include "client/operations/pending_operation.hpp"
#include "client/start/control_channel.hpp"
#include "protocol/segment.hpp"
#include "protocol/shared_heap.hpp"

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
  bool wait_copies = false;
  bool huge_pages = false;
  MappedSegment segment;
  UniqueFd doorbell;
  ProbePointer probe;
  XpmemSegment xpmem;
  std::unique_ptr<RankNetwork> network;  // null: service processes are on this node
};

class RankEndpoint : public std::enable_shared_from_this<RankEndpoint> {
 public:
  explicit RankEndpoint(EndpointParts parts);
  ~RankEndpoint() = default;
  RankEndpoint(const RankEndpoint&) = delete;
  RankEndpoint& operator=(const RankEndpoint&) = delete;

  // Goodbye; afterwards inert. Once, by ~Client.
  void shut_down();

  [[nodiscard]] const WelcomeBody& welcome() const { return welcome_; }
  [[nodiscard]] bool cma() const { return (welcome_.reach & kReachCma) != 0; }
  [[nodiscard]] bool rdma() const { return rdma_; }
  [[nodiscard]] bool xpmem() const { return (welcome_.reach & kReachXpmem) != 0; }

  // Its copier runs: a block within private memory costs the rank nothing more.
  [[nodiscard]] bool copier_runs() const { return !inert() && copier_.runs(); }
  // Before the program's memory goes away, at its exit. Waits for the copies under way.
  void stop_copies();

  // job_map.cpp
  [[nodiscard]] Result<std::vector<std::byte>> node_descriptor(std::uint32_t timeout_ms);
  [[nodiscard]] Status take_job_map(std::span<const std::byte> descriptors, std::uint32_t node,
                                    std::uint32_t timeout_ms);
  [[nodiscard]] std::vector<WireRoute> wire_routes() const;

  // memory.cpp
  [[nodiscard]] void* allocate(std::uint64_t bytes);
  bool release(void* memory);
  [[nodiscard]] RegionId region_of(const void* begin, std::uint64_t bytes);
  [[nodiscard]] void* allocate_staging(std::uint64_t bytes);
  void release_staging(void* memory);

  // heap.cpp
  [[nodiscard]] bool share_heap(const SharedHeap& heap);

  // groups.cpp
  [[nodiscard]] std::shared_ptr<const Group> define_group(GroupId id, const std::vector<WorldRank>& members,
                                                          GroupRank me);
  void retire_group(const Group& group) noexcept;

  // post.cpp
  [[nodiscard]] PendingOperationPtr post(const OperationRequest& request);

  // completion.cpp
  [[nodiscard]] bool poll(PendingOperation& operation);
  void drop(std::unique_ptr<PendingOperation> operation) noexcept;
  [[nodiscard]] Client::Usage usage();

  // wait.cpp
  void wait_for_completion(std::chrono::microseconds at_most, bool helps);
  [[nodiscard]] bool enter_wait();
  void leave_wait();
  [[nodiscard]] bool help();
  [[nodiscard]] bool help_where_alone() { return helper_.alone() && help(); }
  [[nodiscard]] std::uint64_t helped_bytes() const { return helper_.bytes(); }
  [[nodiscard]] std::uint64_t huge_bytes() const { return huge_pages_.bytes(); }
  [[nodiscard]] std::optional<std::string> fatal();
  [[nodiscard]] bool fatal_was_said() const;

  // Called around fork() by fork.cpp.
  void before_fork();
  void after_fork_in_parent() { mutex_.unlock(); }
  void after_fork_in_child();

 private:
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] bool inert() const { return inert_.load(std::memory_order_acquire); }
  [[nodiscard]] SegmentHeader& header() const { return segment_.view().header(); }

  // Creates a region, within the limit of regions.
  [[nodiscard]] std::optional<Region> new_region(RegionUse use, std::uint64_t bytes);
  // The same, and waits until the service processes have mapped it. Without the lock.
  [[nodiscard]] std::optional<Region> add_region_and_wait(RegionUse use, std::uint64_t bytes);
  [[nodiscard]] bool register_region(Region& region);
  // Without the lock.
  void drop_region(Region region);
  void discard_unannounced(Region region);
  [[nodiscard]] std::optional<MemoryRange> allocate_in_chunks(RangeAllocator& chunks, std::uint64_t bytes);
  [[nodiscard]] std::optional<MemoryRange> take_idle_staging(std::uint64_t bytes);

  // Under the lock, from here on.
  enum class Side { impossible, without_bytes, with_bytes };
  struct Filled {
    Side side = Side::impossible;
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;  // from the first to the last
    bool is_private = false;
  };
  [[nodiscard]] Filled fill_layout(const BufferLayout& layout, std::uint32_t group_size, SlotLayout& filled,
                                   MemoryRange& in_heap);
  // The service processes have done with what the request names.
  void release_keys(const SlotRequestBody& body);
  // Puts the request into a slot, or an overflow record. False: no argument memory at present; no slot of a DPU's.
  [[nodiscard]] bool place(PendingOperation& operation, SlotRequestBody body, const OperationArguments& arguments);
  [[nodiscard]] std::optional<MemoryRange> copy_arguments(SlotRequestBody& body, const OperationArguments& arguments);
  [[nodiscard]] std::optional<MemoryRange> allocate_arguments(std::uint64_t bytes);
  void put_in_slot(PendingOperation& operation, const SlotRequestBody& body);
  void publish(SlotIndex slot, const SlotRequestBody& body);
  void ring_if_asleep();
  // Posts what waits, in order, as far as it goes.
  void post_waiting();
  void post_forget(const GroupId& group);
  void finish_locally(PendingOperation& operation, CompletionStatus status);
  bool collect_if_done(PendingOperation& operation);
  void free_slot(SlotIndex slot);
  // Takes back slots and records that are done, whether or not somebody polls them. Called when slots or arguments run
  // short: a program may wait for its last operation first.
  // True when there was any.
  bool reap();
  [[nodiscard]] bool out_of_slots() { return free_slots_.empty() && (!reap() || free_slots_.empty()); }
  void note_waiting() { waiting_count_.store(waiting_.size() + waiting_forgets_.size(), std::memory_order_relaxed); }

  // Argument memory grows without waiting: announced now, used once the service processes have answered.
  void start_growth(std::uint64_t bytes);
  void wait_for_growth();  // without the lock
  void finish_growth();
  [[nodiscard]] bool nothing_can_be_placed() const { return growth_failed_ && !growth_ && posted_operations_ == 0; }

  // heap.cpp: keeps up with the generations of the shared heap. Regions that are no longer needed come back, to be
  // dropped without the lock.
  [[nodiscard]] std::vector<Region> follow_heap();
  [[nodiscard]] std::optional<Region> heap_region();
  void retire_heap();
  void expect_heap();
  [[nodiscard]] bool is_in_flight(const Region& region) const;
  template <class Visit>
  void each_in_heap(const Visit& visit) const;
  // Before the memory that a service process on a DPU looks at goes away: until it has said that it does no more.
  void leave_dpu();

  // Unlocks, then rings the service process's doorbell if it slept when something was published.
  void unlock_and_ring(Lock& lock);
  void ring_doorbell() const;
  void allow_huge_pages();
  void start_copier_if_wanted();
  // Others copy from there.
  void note_source(const Filled& side);

  const std::uint64_t serial_;  // of all cores of this process, from 1
  const WelcomeBody welcome_;
  const bool rdma_;  // service processes are on a DPU
  const ProbePointer probe_;
  XpmemSegment xpmem_;
  std::atomic<bool> inert_{false};
  MappedSegment segment_;
  UniqueFd doorbell_;
  ControlChannel control_;
  HugePages huge_pages_;
  Copier copier_;  // started under the lock
  WaitHelper helper_;
  std::atomic<std::uint32_t> live_regions_{0};
  std::atomic<std::size_t> waiting_count_{0};  // to be read without the lock

  std::mutex mutex_;
  std::unique_ptr<RankNetwork> network_;   // of a DPU
  std::optional<RegistrationCache> keys_;  // of a DPU
  RegionTable regions_;

  RangeAllocator arguments_;
  std::optional<Region> growth_;  // not yet answered
  bool growth_announced_ = false;
  std::chrono::steady_clock::time_point growth_deadline_;
  bool growth_failed_ = false;  // until memory comes back

  RangeAllocator staging_;
  std::unordered_map<const void*, MemoryRange> staging_in_use_;
  std::vector<MemoryRange> staging_idle_;  // ranges with a region of their own, kept for the next time
  std::uint64_t staging_idle_bytes_ = 0;
  std::uint64_t staging_bytes_ = 0;  // in use

  const SharedHeap* heap_ = nullptr;
  std::uint64_t heap_serial_ = 0;      // the generation that was announced last
  std::optional<Region> heap_coming_;  // not yet answered
  bool heap_announced_ = false;        // the one that is coming
  std::vector<Region> heap_retired_;   // of earlier generations, while operations use them

  bool doorbell_due_ = false;
  std::uint32_t ring_tail_ = 0;
  std::vector<SlotIndex> free_slots_;
  std::size_t posted_operations_ = 0;
  OverflowChain overflow_;
  std::deque<PendingOperation*> waiting_;
  std::deque<GroupId> waiting_forgets_;
  std::vector<PendingOperation*> in_slot_;  // by slot; null: free, or a forget_group request
  std::uint32_t reaped_completions_ = 0;
  std::vector<std::unique_ptr<PendingOperation>> abandoned_;
};

// fork.cpp: which cores fork() concerns.
void watch_forks(RankEndpoint& endpoint);
void unwatch_forks(RankEndpoint& endpoint);

}  // namespace outrigger::client
