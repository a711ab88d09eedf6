// The steps by which the members of a team synchronize: numbers in shared memory that only grow, each written by one
// member. Tests compile this room a second time with OUTRIGGER_EXPLORE, a header that chooses the order of these steps.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(OUTRIGGER_EXPLORE)
#include OUTRIGGER_EXPLORE
#else
namespace outrigger::intranode::steps {

inline std::uint64_t load(const std::atomic<std::uint64_t>& word) {
  return word.load(std::memory_order_acquire);
}
inline void store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  word.store(value, std::memory_order_release);
}
// What follows reads or has written memory that members share and that only flags order.
inline void reads(const void*, std::size_t) {}
inline void writes(const void*, std::size_t) {}

}  // namespace outrigger::intranode::steps
#endif

namespace outrigger::intranode {

// One cache line. `value` never falls. Its first half is the futex word of members that sleep.
struct alignas(64) Flag {
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint32_t> sleepers;  // members that sleep, or are about to, until the flag is raised
};
static_assert(sizeof(Flag) == 64);
static_assert(std::endian::native == std::endian::little, "the futex word is the first half");

}  // namespace outrigger::intranode
