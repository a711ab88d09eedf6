// The shared heap's interface to the preload library. Both are libraries in one process; the preload library finds the
// heap by the name of one function.
//
// A *generation* is one sealed memfd and its mapping in this process. The program's large allocations come from the
// current generation. fork() ends it: its memory becomes private to parent and child, except held ranges, and a new
// generation begins.
#pragma once

#include <cstdint>

namespace outrigger {

struct SharedHeapGeneration {
  std::uint64_t serial = 0;  // from 1; never reused
  std::uintptr_t base = 0;
  std::uint64_t bytes = 0;  // address space; memory exists only for allocations
  int fd = -1;              // owned by the caller, who closes it
};

struct SharedHeapCounts {
  std::uint64_t allocations = 0;  // served
  std::uint64_t bytes = 0;        // bytes of these
  std::uint64_t refused = 0;      // large allocations from ordinary memory
  std::uint64_t forks = 0;        // that ended a generation
};

// Functions of the heap. Any thread may call them, except hold_at_fork.
struct SharedHeap {
  std::uint32_t version = 0;  // kSharedHeapVersion
  // Serial of the current generation; 0 if there is none. Cheap.
  std::uint64_t (*serial)() = nullptr;
  // False if there is none.
  bool (*generation)(SharedHeapGeneration* filled) = nullptr;
  SharedHeapCounts (*counts)() = nullptr;
  // The reason why there is no generation; empty while there is one.
  const char* (*why_not)() = nullptr;
  // Service processes access this range: it stays shared in the next fork(), and the child gets a copy. Called by the
  // forking thread before the fork().
  void (*hold_at_fork)(std::uintptr_t begin, std::uint64_t bytes) = nullptr;
};

inline constexpr std::uint32_t kSharedHeapVersion = 1;
// A function without arguments that returns a const SharedHeap*; nullptr if the heap is off.
inline constexpr const char* kSharedHeapSymbol = "outrigger_shared_heap";
using GetSharedHeap = const SharedHeap* (*)();

}  // namespace outrigger
