// The shared heap: a separate library that is preloaded before this one (src/heap).
#pragma once

#include "protocol/shared/shared_heap.hpp"

namespace outrigger::mpi {

struct Job;

// nullptr if it is missing, or off.
[[nodiscard]] const SharedHeap* find_shared_heap();

// Lets the service processes map the heap if the user asked for it. On failure prints the reason, and the job continues
// without the heap.
void use_shared_heap(const Job& job);

// Counters of the heap: on rank 0 the sum of all ranks, elsewhere this rank's. Collective over the world.
[[nodiscard]] SharedHeapCounts gather_heap_counts(const Job& job);

}  // namespace outrigger::mpi
