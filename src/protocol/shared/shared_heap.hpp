// The shared heap as the preload library sees it. Heap and preload library are two files that are loaded into one
// process; they find each other by the name of one function, and this is all that they know of each other.
//
// A *generation* is one sealed memfd and the addresses at which this process has it mapped. The memory of the program's
// large allocations comes from the current one. A fork() ends it: what there was becomes private memory of parent and
// child, but for what is held, and a new generation begins.
#pragma once

#include <cstdint>

namespace outrigger {

struct SharedHeapGeneration {
  std::uint64_t serial = 0;  // from 1; never used again
  std::uintptr_t base = 0;
  std::uint64_t bytes = 0;  // address space; memory is there for what is allocated only
  int fd = -1;              // the caller's own: to be closed
};

struct SharedHeapCounts {
  std::uint64_t allocations = 0;  // served
  std::uint64_t bytes = 0;        // of these together
  std::uint64_t refused = 0;      // large ones that became ordinary memory
  std::uint64_t forks = 0;        // that ended a generation
};

// Functions of the heap. Any thread may call them, but for hold_at_fork.
struct SharedHeap {
  std::uint32_t version = 0;  // kSharedHeapVersion
  // Of the current generation; 0: there is none (any more). Cheap.
  std::uint64_t (*serial)() = nullptr;
  // False: there is none.
  bool (*generation)(SharedHeapGeneration* filled) = nullptr;
  SharedHeapCounts (*counts)() = nullptr;
  // Why there is no generation; empty while there is one.
  const char* (*why_not)() = nullptr;
  // Service processes write to this range, or read it: it stays shared in the next fork(), and the child gets a copy.
  // Called while that fork() is prepared, by its thread.
  void (*hold_at_fork)(std::uintptr_t begin, std::uint64_t bytes) = nullptr;
};

inline constexpr std::uint32_t kSharedHeapVersion = 1;
// A function without arguments that returns a const SharedHeap*; null: the heap is not switched on.
inline constexpr const char* kSharedHeapSymbol = "outrigger_shared_heap";
using GetSharedHeap = const SharedHeap* (*)();

}  // namespace outrigger
