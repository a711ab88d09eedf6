// The shared heap's memory as regions: each generation is one, announced when it has begun. Operations of the meantime
// treat their buffers as private memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/memory/regions.hpp"
#include "client/operations/posts.hpp"
#include "protocol/shared_heap.hpp"

namespace outrigger::client {

class HeapRegions {
 public:
  HeapRegions(EndpointLock& lock, Regions& regions) : lock_(lock), regions_(regions) {}

  // Without the lock. False: there is no heap, or the service processes cannot map it.
  [[nodiscard]] bool share(const SharedHeap& heap);

  // Under the lock. Keeps up with the heap's generations. Regions that are no longer needed come back, to be dropped
  // without the lock.
  [[nodiscard]] std::vector<Region> follow(const Posts& posts) {
    return heap_ == nullptr ? std::vector<Region>() : follow_generations(posts);
  }
  // Under the lock, while a fork() is prepared: what operations use stays shared. The heap's own handlers run after
  // this, before the process is copied.
  void hold_at_fork(Posts& posts);

 private:
  // Of the heap's generation; admitted.
  [[nodiscard]] std::optional<Region> current();
  [[nodiscard]] std::vector<Region> follow_generations(const Posts& posts);
  void retire();
  void take_in_expected();

  EndpointLock& lock_;
  Regions& regions_;
  const SharedHeap* heap_ = nullptr;
  std::uint64_t serial_ = 0;  // the generation that was announced last
  ExpectedRegion coming_;
  std::vector<Region> retired_;  // of earlier generations, while operations use them
};

}  // namespace outrigger::client
