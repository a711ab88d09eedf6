#include "mpi/memory/preloaded_heap.hpp"

#include <dlfcn.h>

#include <vector>

#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {

const SharedHeap* find_shared_heap() {
  static const SharedHeap* const heap = []() -> const SharedHeap* {
    const auto get = reinterpret_cast<GetSharedHeap>(::dlsym(RTLD_DEFAULT, kSharedHeapSymbol));
    const SharedHeap* found = get == nullptr ? nullptr : get();
    return found != nullptr && found->version == kSharedHeapVersion ? found : nullptr;
  }();
  return heap;
}

void use_shared_heap(const Job& job) {
  if (!job.config.memory.heap) return;
  const SharedHeap* heap = find_shared_heap();
  const bool shared = heap != nullptr && job.client->heap().share(*heap);
  if (shared || job.local_rank != 0) return;
  if (job.client->reached_by(kReachRdma)) {
    print("no shared heap: service processes on a DPU reach any memory without it");
  } else if (heap == nullptr) {
    print("no shared heap: liboutrigger-heap.so of the same build must be in LD_PRELOAD, before this library");
  } else if (*heap->why_not() != 0) {
    print("no shared heap: %s", heap->why_not());
  } else if ((job.config.memory.reach & kReachMapped) == 0) {
    print("no shared heap: OUTRIGGER_REACH does not allow mapped");
  } else {
    print("no shared heap: the service processes could not map it");
  }
}

SharedHeapCounts gather_heap_counts(const Job& job) {
  const SharedHeap* heap = find_shared_heap();
  const SharedHeapCounts mine = heap == nullptr ? SharedHeapCounts{} : heap->counts();
  std::vector<SharedHeapCounts> all(job.world_rank == 0 ? job.world_size : 1);
  const int bytes = static_cast<int>(sizeof mine);
  real().Gather(&mine, bytes, constants().byte, all.data(), bytes, constants().byte, 0, constants().comm_world);
  if (job.world_rank != 0) return mine;
  SharedHeapCounts sum;
  for (const SharedHeapCounts& one : all) {
    sum.allocations += one.allocations;
    sum.bytes += one.bytes;
    sum.refused += one.refused;
    sum.forks += one.forks;
  }
  return sum;
}

}  // namespace outrigger::mpi
