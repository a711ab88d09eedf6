// Counts the memory that one part of a program allocates. A program that links counting_new.cpp replaces the global
// operator new and delete: while a CountAllocations is alive, they count allocated and freed bytes by the allocator's
// own sizes. In other programs `available` stays false and nothing is counted.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>

namespace outrigger::sim {

struct AllocationCount {
  bool available = false;
  bool counting = false;
  std::int64_t bytes = 0;
  std::int64_t most_bytes = 0;
  std::int64_t live = 0;
  std::int64_t most_live = 0;
};

[[nodiscard]] inline AllocationCount& allocation_count() {
  static constinit AllocationCount count;
  return count;
}

class CountAllocations {
 public:
  CountAllocations() { allocation_count().counting = true; }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
  ~CountAllocations() { allocation_count().counting = false; }
};

}  // namespace outrigger::sim
