// Finds out which processes may access memory of this process, without touching it. The answer may change at any time.
// Memory that a signal handler makes accessible on a fault counts as inaccessible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace outrigger {

enum class Access { read, write };

// The first inaccessible address of the range; nullopt if all seems accessible. Not for memory that only the process
// itself may fault in (userfaultfd).
[[nodiscard]] std::optional<std::uintptr_t> first_inaccessible(const void* begin, std::uint64_t bytes, Access access);

enum class Reachable {
  by_others,        // also by cross-memory attach
  by_this_process,  // only: memfd_secret, memory of devices, pages without read permission
  by_nobody
};

// False: a system call filter, installed since the start, may kill a process that makes rare calls.
[[nodiscard]] bool may_make_rare_calls();

// True if other processes can access the page of `address`. Quick. May allocate the page if it is to be written. False:
// call reachable() for the exact answer. True also if the kernel is too old and a filter forbids other checks.
[[nodiscard]] bool others_reach_page(std::uintptr_t address, Access access);

// A mapping of this process.
struct MappedRange {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  bool readable = false;
  bool writable = false;
  bool of_file = false;
};
// Checks the whole range: one page of each mapping, whose pages are all alike. Calls `others_reach` with each mapping
// that other processes can access.
[[nodiscard]] Reachable reachable(std::uintptr_t begin, std::uintptr_t end, Access access,
                                  const std::function<void(const MappedRange&)>& others_reach);

}  // namespace outrigger
