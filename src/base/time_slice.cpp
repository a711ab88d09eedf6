#include "base/time_slice.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

namespace outrigger {
namespace {

constexpr std::uint64_t kShortestSliceNs = 100'000;
constexpr std::uint64_t kUsualSlice = 0;  // the kernel's default

// The kernel's struct sched_attr, whose header conflicts with sched.h.
struct Attributes {
  std::uint32_t size_bytes = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // for SCHED_OTHER: the slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(Attributes) == 48);  // SCHED_ATTR_SIZE_VER0

// Scheduling of the calling thread; nullopt if it has another policy.
std::optional<Attributes> usual_scheduling() {
  Attributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return std::nullopt;
  return attributes.policy == SCHED_OTHER ? std::optional(attributes) : std::nullopt;
}

// Returns the former slice; 0: slices cannot be chosen here.
std::uint64_t set_slice(std::uint64_t slice_ns) {
  std::optional<Attributes> attributes = usual_scheduling();
  if (!attributes || attributes->runtime_ns == 0) return 0;
  const std::uint64_t before_ns = attributes->runtime_ns;
  attributes->runtime_ns = slice_ns;
  return ::syscall(SYS_sched_setattr, 0, &*attributes, 0) == 0 ? before_ns : 0;
}

}  // namespace

void ask_for_short_slices() {
  (void)set_slice(kShortestSliceNs);
}

ShortSlices::ShortSlices() : before_ns_(set_slice(kShortestSliceNs)) {}

// Finds out if the former slice was the default by setting the default.
ShortSlices::~ShortSlices() {
  if (before_ns_ == 0 || set_slice(kUsualSlice) == 0) return;
  const std::optional<Attributes> usual = usual_scheduling();
  if (usual && usual->runtime_ns != before_ns_) (void)set_slice(before_ns_);
}

}  // namespace outrigger
