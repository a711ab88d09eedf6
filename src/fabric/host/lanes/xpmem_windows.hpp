// A rank's private memory, attached to this process by XPMEM in windows that are cached.
//
// An attachment covers addresses: it costs page tables for touched pages, follows the rank's munmap and mmap, and need
// not be renewed. An access to a page that the rank lacks faults here: see copy_guarded().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/xpmem.hpp"

namespace outrigger::fabric {

// Thread rule: one thread.
class XpmemWindows {
 public:
  // Alignment of windows, so that neighboring buffers share one.
  static constexpr std::uint64_t kAlignment = 64ULL << 20;
  // At the limit the least recently used window is detached.
  static constexpr std::size_t kMostWindows = 64;

  // nullptr: the segment may not be used. `calls` must outlive it.
  [[nodiscard]] static std::unique_ptr<XpmemWindows> open(const XpmemCalls& calls, std::int64_t segment);
  ~XpmemWindows();
  XpmemWindows(const XpmemWindows&) = delete;
  XpmemWindows& operator=(const XpmemWindows&) = delete;

  // Local pointer to [address, address + bytes) of the rank, valid for this and the next call; nullptr if it cannot be
  // attached.
  [[nodiscard]] std::byte* at(std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] std::size_t windows() const { return windows_.size(); }

 private:
  struct Window {
    std::uint64_t first = 0;  // in the rank's address space
    std::uint64_t bytes = 0;
    std::byte* ours = nullptr;
  };
  XpmemWindows(const XpmemCalls& calls, std::int64_t access) : calls_(calls), access_(access) {}
  [[nodiscard]] bool attach(std::uint64_t address, std::uint64_t bytes);

  const XpmemCalls& calls_;
  std::int64_t access_;
  std::vector<Window> windows_;  // most recently used last
};

// memmove with one attached side. False: a fault (SIGBUS, SIGSEGV), after which `to` may be partly overwritten. Faults
// of other code go to the previously installed handlers.
//
// Thread rule: any thread; handlers are installed once, by the first call.
[[nodiscard]] bool copy_guarded(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace outrigger::fabric
