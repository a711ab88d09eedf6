// A rank's private memory, attached to this process by XPMEM in windows that are kept for the next time.
//
// An attachment is of addresses: it costs page tables for what is touched, follows the rank's munmap and mmap, and need
// not be renewed. What the rank does not have there is a fault of whoever touches it: copy_guarded().
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
  // Starts and ends of windows, so that neighbouring buffers share one.
  static constexpr std::uint64_t kAlignment = 64ULL << 20;
  // At the limit the one that has not been used for longest is detached.
  static constexpr std::size_t kMostWindows = 64;

  // Null: the segment may not be used. `calls` must outlive it.
  [[nodiscard]] static std::unique_ptr<XpmemWindows> open(const XpmemCalls& calls, std::int64_t segment);
  ~XpmemWindows();
  XpmemWindows(const XpmemWindows&) = delete;
  XpmemWindows& operator=(const XpmemWindows&) = delete;

  // Our pointer to [address, address + bytes) of the rank; null: it cannot be attached. Good for this and the next
  // call.
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
  std::vector<Window> windows_;  // the last used one last
};

// memmove, where one side is attached. False: a fault (SIGBUS, SIGSEGV), after which some of `to` may be overwritten.
// Faults of others go to the handlers that were there before the first call.
//
// Thread rule: any thread; handlers are installed once, by the first call.
[[nodiscard]] bool copy_guarded(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace outrigger::fabric
