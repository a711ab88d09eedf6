// The shared heap's memory, or MPI_Alloc_mem's if there is no such heap, as regions: one per generation. A generation
// is announced after its start; the first one of MPI_Alloc_mem when an operation first uses it. Operations before that
// treat their buffers as private memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "client/memory/regions.hpp"
#include "client/operations/rank_posts.hpp"
#include "protocol/shared/shared_heap.hpp"

namespace outrigger::client {

class HeapRegions {
 public:
  HeapRegions(EndpointLock& lock, Regions& regions) : lock_(lock), regions_(regions) {}

  // Without the lock. Service processes map the shared heap of this process, now and after each fork() that makes it
  // begin anew. `heap` must outlive this. False: there is no heap, or the service processes cannot map it.
  [[nodiscard]] bool share(const SharedHeap& heap) noexcept;
  // Without the lock. Memory of ProgramMemory, which releases it. Service processes map it from the first operation on
  // that uses it. nullptr if they cannot map any or there is none; use ordinary memory then.
  [[nodiscard]] void* allocate_for_program(std::uint64_t bytes) noexcept;
  // Without the lock. An operation is about to use `memory`. The first time that it is memory of MPI_Alloc_mem, this
  // tells the service processes and waits for them.
  void use(const void* memory) {
    if (!used_.load(std::memory_order_relaxed)) share_if_for_program(memory);
  }
  // Without the lock. An operation on these buffers is posted.
  void see_operation(const void* send, const void* receive) {
    seen_operation_.store(true, std::memory_order_relaxed);
    use(send);
    use(receive);
  }
  [[nodiscard]] bool has_seen_operation() const { return seen_operation_.load(std::memory_order_relaxed); }

  // Under the lock. Follows the heap's generations. Returns regions that are not needed any more, to be dropped without
  // the lock.
  [[nodiscard]] std::vector<Region> follow(const Posts& posts) {
    return is_followed() ? std::vector<Region>() : follow_generations(posts);
  }
  // Under the lock. follow() has nothing to do.
  [[nodiscard]] bool is_followed() const {
    return heap_ == nullptr || (heap_->serial() == serial_ && !coming_ && retired_.empty());
  }
  // Under the lock, before a fork(): memory of operations stays shared. The heap's own handlers run after this, before
  // the process is copied.
  void hold_at_fork(Posts& posts);
  // Under the lock, after a fork() in the parent. Memory of the generation that has ended is private from here on, also
  // for buffers that are looked up before the next post.
  void end_at_fork() {
    if (heap_ != nullptr && heap_->serial() != serial_) retire();
  }

 private:
  [[nodiscard]] bool can_map() const { return !lock_.is_inert() && !regions_.registers() && regions_.maps(); }
  void share_if_for_program(const void* memory);
  // The heap's current generation; admitted.
  [[nodiscard]] std::optional<Region> current();
  [[nodiscard]] std::vector<Region> follow_generations(const Posts& posts);
  void retire();
  void take_in_expected();

  EndpointLock& lock_;
  Regions& regions_;
  std::atomic<bool> seen_operation_{false};
  std::atomic<bool> used_{false};  // a heap is shared, or an operation has used MPI_Alloc_mem's memory
  const SharedHeap* heap_ = nullptr;
  std::uint64_t serial_ = 0;  // the last announced generation
  ExpectedRegion coming_;
  std::vector<Region> retired_;  // of earlier generations, while operations use them
};

}  // namespace outrigger::client
