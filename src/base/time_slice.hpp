// Length of a thread's turns on its core. A thread with short turns runs soon after its wake-up, and not only at the
// end of a computing thread's turn of milliseconds. Its share of the core stays the same. Linux 6.12 and later; ignored
// by others. Needs no privilege.
#pragma once

#include <cstdint>

namespace outrigger {

// Requests the shortest slices for the calling thread and its later children. Only with the default policy
// (SCHED_OTHER).
void ask_for_short_slices();

// Short slices for the calling thread during the object's life; then the former ones.
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
