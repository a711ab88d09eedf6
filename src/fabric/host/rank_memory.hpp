// One rank's memory as this service process knows it: its segment, its regions, and the access to its private memory.
// Only this class turns a rank's addresses into local pointers.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "copy/copy_queue.hpp"
#include "fabric/host/lanes/xpmem_windows.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::fabric {

// Not thread-safe. Its pointers are valid until the region is dropped.
class RankMemory {
 public:
  // `segment` must hold a valid segment of segment_bytes(). `private_reachable`: cross-memory attach works and is
  // allowed.
  RankMemory(pid_t pid, Mapping segment, bool private_reachable);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] SegmentView segment() const { return SegmentView(segment_->base()); }
  [[nodiscard]] bool private_reachable() const { return private_reachable_; }

  // Errors: an id that is reserved or in use, an address that is not page-aligned, a range beyond the address space.
  [[nodiscard]] Status add_region(RegionId region, std::uint64_t base, Mapping mapping);
  // A range that is not mapped here, but may be moved. Errors as above.
  [[nodiscard]] Status add_range(RegionId region, std::uint64_t base, std::uint64_t bytes);
  // False: no such region or range.
  bool drop_region(RegionId region);
  [[nodiscard]] std::size_t regions() const { return regions_.size(); }

  // Local pointer to [address, address + bytes) of the rank. nullptr if the range is not wholly inside `region`, or
  // `region` is kPrivateRegion or unknown.
  [[nodiscard]] std::byte* mapped(RegionId region, std::uint64_t address, std::uint64_t bytes) const;

  // Keeps pointers from mapped() for the region valid after it has been dropped. nullptr if the region has no mapping.
  [[nodiscard]] std::shared_ptr<const void> hold(RegionId region) const;

  // A DPU's keyed range that is not mapped here is private memory, if that is reached.
  [[nodiscard]] RegionId known_as(RegionId region) const {
    return private_reachable_ && is_keyed(region) && !regions_.contains(region) ? kPrivateRegion : region;
  }

  // True if the range may be moved: it is inside its region, or private, reachable and within the address space.
  [[nodiscard]] bool accessible(RegionId region, std::uint64_t address, std::uint64_t bytes) const;

  // Private memory by XPMEM; nullptr: not available.
  void set_windows(std::unique_ptr<XpmemWindows> windows) { windows_ = std::move(windows); }
  [[nodiscard]] bool attachable() const { return windows_ != nullptr; }
  // Local pointer to [address, address + bytes) of private memory, valid for this and the next call. nullptr if it
  // cannot be attached. Then no later call attaches either: a lender is better than repeated failures.
  [[nodiscard]] std::byte* attached(std::uint64_t address, std::uint64_t bytes);

  // A word of private memory, by which other ranks check that they reach the right process.
  void set_probe(std::uint64_t address) { probe_address_ = address; }
  // Puts process and word into the job. False: the word is unknown.
  [[nodiscard]] bool name_process(CopyJob& job);

 private:
  struct Region {
    std::uint64_t base = 0;
    std::shared_ptr<const Mapping> mapping;
  };

  pid_t pid_;
  std::shared_ptr<const Mapping> segment_;
  bool private_reachable_;
  std::unique_ptr<XpmemWindows> windows_;
  std::uint64_t probe_address_ = 0;  // 0: none
  std::optional<std::uint64_t> probe_value_;
  struct Range {
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
  };
  std::unordered_map<RegionId, Region> regions_;
  std::unordered_map<RegionId, Range> ranges_;
};

}  // namespace outrigger::fabric
