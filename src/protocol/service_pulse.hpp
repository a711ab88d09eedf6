// What a service process shows of itself to its keeper, in a page that the keeper has made and that outlives it: that
// it gets on. Where it says nothing its keeper looks at what the kernel says of it.
#pragma once

#include <atomic>
#include <cstdint>

namespace outrigger {

struct alignas(64) ServicePulse {
  std::atomic<std::uint64_t> turns;  // of its loop; while it sleeps there are none, and nobody wakes it for one
};
static_assert(sizeof(ServicePulse) == 64);
inline constexpr std::uint64_t kPulseBytes = 4096;

}  // namespace outrigger
