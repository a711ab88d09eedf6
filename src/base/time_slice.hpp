// How long the kernel lets a thread run before others have their turn. Who has short turns runs soon after it is woken,
// instead of after the turn of somebody who computes, which lasts milliseconds; it gets no more of the core for that.
// Linux 6.12 and later; others take no notice. Needs no privilege.
#pragma once

#include <cstdint>

namespace outrigger {

// Asks for the shortest time slices, for the calling thread and the processes and threads that it starts from now on.
// Only where it is scheduled as usual (SCHED_OTHER).
void ask_for_short_slices();

// Short slices for the calling thread while it lives; then they are what they were.
class ShortSlices {
 public:
  ShortSlices();
  ShortSlices(const ShortSlices&) = delete;
  ShortSlices& operator=(const ShortSlices&) = delete;
  ~ShortSlices();

 private:
  std::uint64_t before_ns_;  // 0: nothing was changed
};

}  // namespace outrigger
