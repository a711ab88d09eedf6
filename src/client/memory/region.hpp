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

// The use of a region decides what a forked child gets.
enum class RegionUse {
  internal,  // arguments and staging: not in the child
  heap,      // a generation of the shared heap, which manages the memory itself
};

// A mapped, sealed memfd. The descriptor is closed once the region is announced. Does not unmap itself: only the owner
// knows the memory's users.
struct Region {
  RegionId id;  // assigned at the announcement
  RegionUse use = RegionUse::internal;
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;  // whole pages
  UniqueFd fd;

  // In this process's address space, as the service processes know it.
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(base); }
  [[nodiscard]] bool holds(std::uint64_t begin, std::uint64_t length) const {
    const std::uint64_t offset = begin - address();  // modulo 2^64
    return offset <= bytes && length <= bytes - offset;
  }
  // Gives the memory back, but the heap's.
  void unmap();
};

// Creates and maps zeroed memory for internal use. It is allocated at once, so a later write never fails for lack of
// memory. nullopt without memory or a descriptor.
[[nodiscard]] std::optional<Region> create_region(std::uint64_t bytes);

class RegionTable {
 public:
  void insert(Region region);
  // Removes the internal region that starts at `base` from the table.
  [[nodiscard]] std::optional<Region> take(const void* base);
  // The heap's region; there is at most one.
  [[nodiscard]] std::optional<Region> take_heap();
  // The region that holds the whole range; null when none does.
  [[nodiscard]] const Region* find(std::uint64_t address, std::uint64_t bytes) {
    if (recent_ < regions_.size() && regions_[recent_].holds(address, bytes)) return &regions_[recent_];
    return search(address, bytes);
  }
  [[nodiscard]] std::vector<Region>& all() { return regions_; }

 private:
  [[nodiscard]] const Region* search(std::uint64_t address, std::uint64_t bytes);
  template <class Wanted>
  [[nodiscard]] std::optional<Region> take_first(const Wanted& wanted);

  std::vector<Region> regions_;  // sorted by base
  std::size_t recent_ = 0;       // the place of the one that was found last, unless others have come or gone
};

}  // namespace outrigger::client
