// XPMEM, if its kernel module is loaded: maps another process's private memory. The library is loaded at run time, not
// linked.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace outrigger {

// The functions of libxpmem.so.0, as in its header. Pointers that are (void*)-1 and ids that are -1 mean failure.
struct XpmemCalls {
  struct Place {
    std::int64_t access = 0;  // from get()
    off_t offset = 0;         // from the segment's start, in whole pages
  };
  int (*version)() = nullptr;
  std::int64_t (*make)(void* address, std::size_t bytes, int permit_type, void* permit) = nullptr;
  int (*remove)(std::int64_t segment) = nullptr;
  std::int64_t (*get)(std::int64_t segment, int flags, int permit_type, void* permit) = nullptr;
  int (*release)(std::int64_t access) = nullptr;
  void* (*attach)(Place place, std::size_t bytes, void* where) = nullptr;
  int (*detach)(void* where) = nullptr;
};

inline constexpr std::int64_t kNoXpmemSegment = -1;
inline constexpr int kXpmemReadWrite = 2;
inline constexpr int kXpmemPermitMode = 1;

// nullptr if the library or the module is missing; then `why_not` (if given) gets the reason. Loads the library once.
[[nodiscard]] const XpmemCalls* xpmem_calls(std::string* why_not = nullptr);

}  // namespace outrigger
