// Looks which memory of this process may be touched, and by which processes, without touching it. The answer may change
// at any time. Memory that a signal handler makes accessible when it is touched counts as not accessible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace outrigger {

enum class Access { read, write };

// The first address of the range that is not there for that; nothing: all is, as far as can be told. Not for memory
// that the kernel may fault in only in the process itself (userfaultfd).
[[nodiscard]] std::optional<std::uintptr_t> first_inaccessible(const void* begin, std::uint64_t bytes, Access access);

enum class Reachable {
  by_others,        // also by cross-memory attach
  by_this_process,  // alone: memfd_secret, memory of devices, pages without the permission to read
  by_nobody
};

// Can other processes touch the page that `address` is in? Quick. A page that is to be written may get its memory now.
// False: reachable() knows more. True also where the kernel is too old and a filter forbids to ask otherwise.
[[nodiscard]] bool others_reach_page(std::uintptr_t address, Access access);

// A mapping of this process.
struct MappedRange {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  bool readable = false;
  bool writable = false;
  bool of_file = false;
};
// The whole range, looked at closely: one page of each mapping, all of whose pages are alike. `others_reach` is called
// with each mapping that other processes can touch.
[[nodiscard]] Reachable reachable(std::uintptr_t begin, std::uintptr_t end, Access access,
                                  const std::function<void(const MappedRange&)>& others_reach);

}  // namespace outrigger
