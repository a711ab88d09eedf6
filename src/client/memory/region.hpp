// Regions: memory of this rank that the node's service processes map too, and the table that finds them by address.
//
// Thread rule: the owner locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/unique_fd.hpp"
#include "protocol/ids.hpp"

namespace outrigger::client {

// Who uses a region decides what a forked child sees of it.
enum class RegionUse {
  program,   // from allocate(): the child gets a private view
  internal,  // arguments and staging: not in the child
  heap,      // a generation of the shared heap, which looks after the memory itself
};

// A mapped, sealed memfd. The descriptor is kept for fork() and for turning the memory private at the end; internal
// regions need neither and lose theirs once announced. Does not unmap itself: who still uses the memory is known to the
// owner only.
struct Region {
  RegionId id;  // given when it is announced
  RegionUse use = RegionUse::internal;
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;  // whole pages
  UniqueFd fd;

  // In this process's address space, as the service processes know it.
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(base); }
  // Gives the memory back, but the heap's.
  void unmap();
  // The same addresses and contents, but writes are seen by this process only. Uses system calls only, so it may be
  // called in a forked child. False: the mapping is as it was.
  [[nodiscard]] bool make_private();
};

// Creates the memory and maps it: zeroed, and certain to be there (a write never fails later for want of memory).
// Nothing when there is no memory, or when descriptors run short.
[[nodiscard]] std::optional<Region> create_region(RegionUse use, std::uint64_t bytes);

class RegionTable {
 public:
  void insert(Region region);
  // The region that starts at `base`, taken out of the table.
  [[nodiscard]] std::optional<Region> take(const void* base, RegionUse use);
  // The shared heap's, of which there is one at most.
  [[nodiscard]] std::optional<Region> take_heap();
  // The region that holds the whole range; null when none does.
  [[nodiscard]] const Region* find(std::uint64_t address, std::uint64_t bytes) const;
  [[nodiscard]] std::vector<Region>& all() { return regions_; }

 private:
  template <class Wanted>
  [[nodiscard]] std::optional<Region> take_first(const Wanted& wanted);

  std::vector<Region> regions_;  // sorted by base
};

}  // namespace outrigger::client
