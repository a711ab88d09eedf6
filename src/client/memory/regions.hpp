// This rank's memory as its service processes know it: regions that they map, announced to the keeper; or, with service
// processes on a DPU, ranges that are registered for RDMA.
//
// At most kMaxRegionsPerRank; further memory is refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "client/endpoint_lock.hpp"
#include "client/memory/range_allocator.hpp"
#include "client/memory/region.hpp"
#include "client/memory/registration_cache.hpp"
#include "client/network/rank_network.hpp"
#include "client/start/control_channel.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class Regions {
 public:
  // `network`: of a DPU, or nullptr. `reach`: from the welcome.
  Regions(EndpointLock& lock, ControlChannel& control, RankNetwork* network, SegmentView segment, std::uint32_t reach);

  // --- without the lock ---
  // A new region that the service processes know. The caller inserts it.
  [[nodiscard]] std::optional<Region> add(std::uint64_t bytes);
  // The same for existing memory that was admitted before.
  [[nodiscard]] std::optional<Region> make_known(Region region);
  // From a chunk, or from a new region.
  [[nodiscard]] std::optional<MemoryRange> allocate_in(RangeAllocator& chunks, std::uint64_t bytes);
  void drop(Region region);

  // --- any thread --- Counts one more region. False: the limit is reached.
  [[nodiscard]] bool admit();
  // Admitted and created, but not announced.
  [[nodiscard]] std::optional<Region> create(std::uint64_t bytes);
  void discard_unannounced(Region region);
  [[nodiscard]] std::uint32_t count() const { return live_.load(std::memory_order_relaxed); }
  // Service processes map announced memory.
  [[nodiscard]] bool maps() const { return (reach_.load(std::memory_order_relaxed) & kReachMapped) != 0; }
  // Memory that is not announced is reached, too.
  [[nodiscard]] bool private_is_reached() const { return (reach_.load(std::memory_order_relaxed) & kReachCma) != 0; }
  // Ranges are registered, not mapped.
  [[nodiscard]] bool registers() const { return registers_.load(std::memory_order_acquire); }
  [[nodiscard]] ControlChannel& control() { return control_; }

  // Results of find() hold as long as this is the same, which only the lock ensures. 0: they do not hold, as a
  // registration needs a user.
  [[nodiscard]] std::uint64_t state() const { return registers() ? 0 : changes_.load(std::memory_order_relaxed); }

  // --- under the lock ---
  void insert(Region region) {
    ++changes_;
    table_.insert(std::move(region));
  }
  [[nodiscard]] std::optional<Region> take(const void* base) {
    ++changes_;
    return table_.take(base);
  }
  [[nodiscard]] std::optional<Region> take_heap() {
    ++changes_;
    return table_.take_heap();
  }
  // The way in which service processes reach a range of an operation; adds a user to its registration. False: they
  // cannot.
  struct Place {
    RegionId region = kPrivateRegion;
    bool in_heap = false;
  };
  [[nodiscard]] bool use(std::uint64_t begin, std::uint64_t bytes, Place& place) {
    place = {};
    if (registers()) {
      const std::optional<RegionId> registered = registrations_->use(begin, bytes);
      if (registered) place.region = *registered;
      return registered.has_value();
    }
    const Region* region = table_.find(begin, bytes);
    if (region == nullptr) return private_is_reached();
    place = {region->id, region->use == RegionUse::heap};
    return true;
  }
  // The same for a look: without a user.
  [[nodiscard]] bool find(std::uint64_t begin, std::uint64_t bytes, Place& place) {
    const bool found = use(begin, bytes, place);
    if (found && registers()) registrations_->release(place.region);
    return found;
  }
  // The service processes have finished the request.
  void release_registrations(const SlotRequestBody& body) {
    if (!registers()) return;
    registrations_->release(RegionId{body.send.base.region});
    registrations_->release(RegionId{body.receive.base.region});
  }
  // For regions that no service process maps: registers it like the program's memory.
  [[nodiscard]] bool register_now(Region& region);

  // The service processes are on this node from now on. Nothing is registered any more, and keys of registered ranges
  // mean private memory. Returns the regions that they may map, to be announced by their present ids.
  [[nodiscard]] std::vector<Region> leave_dpu();

  // --- at the end --- Before the network closes.
  void deregister() {
    registers_.store(false, std::memory_order_release);
    registrations_.reset();
  }
  void close();
  // In a forked child.
  void abandon_in_child() {
    if (registrations_) registrations_->abandon();
  }

 private:
  EndpointLock& lock_;
  ControlChannel& control_;
  std::atomic<std::uint32_t> reach_;
  std::optional<RegistrationCache> registrations_;  // for a DPU
  std::atomic<bool> registers_{false};
  RegionTable table_;
  std::atomic<std::uint64_t> changes_ = 1;  // of the table
  std::atomic<std::uint32_t> live_{0};
};

// A region that is announced without waiting, once the keeper's channel is free, and used once the service processes
// have answered. Under the lock.
class ExpectedRegion {
 public:
  [[nodiscard]] explicit operator bool() const { return region_.has_value(); }
  [[nodiscard]] bool announced() const { return announced_; }
  void expect(Region region) {
    region_ = std::move(region);
    announced_ = false;
  }
  // Does the steps that are possible without waiting.
  [[nodiscard]] RegionAnswer look(ControlChannel& control);
  [[nodiscard]] Region take() {
    Region region = std::move(*region_);
    region_.reset();
    return region;
  }

 private:
  std::optional<Region> region_;
  bool announced_ = false;
};

}  // namespace outrigger::client
