#include "service/loop/scheduling.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace outrigger::service {
namespace {

constexpr std::uint64_t kShortestSliceNs = 100'000;

// struct sched_attr of the kernel, whose header cannot be included beside sched.h.
struct Attributes {
  std::uint32_t size_bytes = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // of SCHED_OTHER: the slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(Attributes) == 48);  // SCHED_ATTR_SIZE_VER0

}  // namespace

void ask_for_short_slices() {
  Attributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0 || attributes.policy != SCHED_OTHER)
    return;
  attributes.runtime_ns = kShortestSliceNs;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace outrigger::service
