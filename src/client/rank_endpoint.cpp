#include "client/rank_endpoint.hpp"

#include <thread>
#include <utility>

#include "base/huge_page.hpp"

namespace outrigger::client {
namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

RankEndpoint::RankEndpoint(EndpointParts parts)
    : serial_(next_serial()),
      welcome_(parts.welcome),
      rdma_(parts.network != nullptr),
      probe_(std::move(parts.probe)),
      xpmem_(std::move(parts.xpmem)),
      segment_(std::move(parts.segment)),
      doorbell_(std::move(parts.doorbell)),
      control_(std::move(parts.socket), parts.world_rank),
      network_(std::move(parts.network)) {
  const SegmentView& view = segment_.view();
  if (network_) keys_.emplace(*network_, view, network_->unmapped());
  view.header().rank_base_address.store(reinterpret_cast<std::uintptr_t>(view.base()), std::memory_order_release);
  // Where copiers are not allowed nobody gives out jobs.
  const bool copiers = (welcome_.reach & kReachCopier) != 0;
  if (parts.wait_copies && copiers)
    helper_.allow(view.header().copies, huge_pages_, copy::lenders_with(welcome_.core_share));
  if (parts.huge_pages && copiers) allow_huge_pages();
  ring_tail_ = view.header().ring_tail.load(std::memory_order_relaxed);
  arguments_.add_chunk(kArenaRegion, reinterpret_cast<std::uintptr_t>(view.arena()), kArenaBytes);
  free_slots_.reserve(kSlotCount);
  in_slot_.resize(kSlotCount);
  for (std::uint32_t slot = kSlotCount; slot > 0; --slot) free_slots_.emplace_back(slot - 1);
}

void RankEndpoint::allow_huge_pages() {
  const std::uint64_t page_bytes = huge_page_support().bytes;
  if (huge_pages_.allow(page_bytes)) use_growing_heap_below(2 * page_bytes);
}

void RankEndpoint::shut_down() {
  unwatch_forks(*this);
  std::vector<std::unique_ptr<PendingOperation>> abandoned;  // destroyed without the lock: groups take it
  {
    const Lock lock(mutex_);
    if (inert_.exchange(true)) return;  // a forked child: nothing here is its own
    abandoned.swap(abandoned_);
    waiting_.clear();
    waiting_forgets_.clear();
  }
  if (network_) leave_dpu();
  keys_.reset();
  network_.reset();
  stop_copies();  // they write to the program's memory and read the segment
  control_.goodbye();
  xpmem_.reset();
  if (growth_) growth_->unmap();
  for (Region& region : regions_.all()) {
    // The program may go on reading what it got from allocate(): that becomes ordinary memory.
    if (region.use != RegionUse::program || !region.make_private()) region.unmap();
  }
  regions_.all().clear();
  segment_.unmap();
  doorbell_.reset();
}

void RankEndpoint::stop_copies() {
  copier_.stop();
  helper_.stop();
}

void RankEndpoint::leave_dpu() {
  constexpr std::chrono::seconds kPatience{1};
  constexpr std::chrono::microseconds kBetweenLooks{50};
  header().rank_quiet.store(kRankLeaves, std::memory_order_seq_cst);
  if (header().service_sleeping.load(std::memory_order_seq_cst) != 0) network_->ring();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const std::atomic<std::uint32_t>& proof = header().proofs[welcome_.sp % kMaxServices];
  while (proof.load(std::memory_order_acquire) != kRankLeaves && header().fatal.load() == 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace outrigger::client
