// The shared heap: a library of its own that is preloaded in front of this one (src/heap).
#pragma once

#include "protocol/shared/shared_heap.hpp"

namespace outrigger::mpi {

struct Job;

// nullptr: not there, or not switched on.
[[nodiscard]] const SharedHeap* find_shared_heap();

// Lets the service processes map the heap where the user asked for it. Says why not; the job goes on without.
void use_shared_heap(const Job& job);

// How the heap served the ranks. Of all ranks together on rank 0, of this one elsewhere. Collective over the world.
[[nodiscard]] SharedHeapCounts gather_heap_counts(const Job& job);

}  // namespace outrigger::mpi
