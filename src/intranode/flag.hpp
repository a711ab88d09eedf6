// The steps by which the members of a team synchronize: numbers in shared memory that only grow, each written by one
// member. Tests compile this room a second time with OUTRIGGER_EXPLORE, a header that chooses the order of these steps.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <source_location>

#if defined(OUTRIGGER_EXPLORE)
#include OUTRIGGER_EXPLORE
#else
namespace outrigger::intranode {

// Members of a team, at most: larger ones are not made.
inline constexpr std::uint32_t kMostMembers = 64;
// Slots of a member. They take turns. Half as long ones take a quarter longer for blocks of 256 KiB; more or longer
// ones gain little.
inline constexpr std::uint32_t kSlots = 2;
inline constexpr std::size_t kSlotBytes = std::size_t{32} << 10;
// Flags by which a member arrives. They take turns, so it can be so many short steps ahead.
inline constexpr std::uint32_t kArrivals = 16;
// As much goes beside such a flag: 32 bytes in its cache line, the rest in the next ones. An allreduce of 512 bytes
// took a tenth longer here than in slots.
inline constexpr std::size_t kLittleBytes = 32 + 256;
// As much fits into a part of a slot, if its parts have as many turns as flags.
inline constexpr std::size_t kShortBytes = kSlotBytes * kSlots / kArrivals;
// Members of a team, and bytes that they have together, from which a reduction is shared out in slices.
inline constexpr std::uint32_t kSlicingMembers = 4;
inline constexpr std::size_t kSlicingBytes = std::size_t{64} << 10;
// Bytes of a block from which members can copy out of and into each other's buffers: 32 KiB took less time so than 16
// KiB did through slots, between threads of a core. Between cores slots may take less time up to some MiB.
inline constexpr std::size_t kDirectBytes = std::size_t{16} << 10;
inline constexpr std::size_t kUntriedDirectBytes = std::size_t{512} << 10;  // without trials of both
// A block that two members copy together is in pieces of whole units, at most so many.
inline constexpr std::size_t kPieceUnit = std::size_t{8} << 10;
inline constexpr std::size_t kMostPieces = 16;
// Bytes of all members' contributions that a member combines at a time: a part of a core's second cache.
inline constexpr std::size_t kHotBytes = std::size_t{512} << 10;
// Nonblocking operations of a member for which there are places that are used again and again.
inline constexpr std::uint64_t kPlaces = 16;
// Bytes that a member contributes to one of them, at most.
inline constexpr std::size_t kMostPosted = std::size_t{16} << 10;
// Members agree on so many operations at a time: they do them, or leave them and all later ones to others.
inline constexpr std::uint64_t kWindow = 8192;
// Limit of what a member has posted and others have not collected.
inline constexpr std::uint64_t kMorePlaces = 2 * kWindow;

namespace steps {

// A place in an algorithm that raises or waits for a flag.
using Site = std::source_location;
// Only mutations leave one out.
[[nodiscard]] constexpr bool keeps(const Site&) {
  return true;
}

[[nodiscard]] inline std::uint64_t load(const std::atomic<std::uint64_t>& word) {
  return word.load(std::memory_order_acquire);
}
inline void store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  word.store(value, std::memory_order_release);
}
// Words that flags order. Their reader accepts newer ones.
inline void tell(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  word.store(value, std::memory_order_relaxed);
}
[[nodiscard]] inline std::uint64_t told(const std::atomic<std::uint64_t>& word) {
  return word.load(std::memory_order_relaxed);
}
// If the word is as expected, it becomes `desired`. Returns what it was. It is a flag between those that change it.
[[nodiscard]] inline std::uint64_t exchange(std::atomic<std::uint64_t>& word, std::uint64_t expected,
                                            std::uint64_t desired, const Site& /*site*/) {
  word.compare_exchange_strong(expected, desired, std::memory_order_acq_rel, std::memory_order_acquire);
  return expected;
}
// An access to memory that members share follows. Only flags order it.
inline void reads(const void*, std::size_t) {}
inline void writes(const void*, std::size_t) {}

}  // namespace steps
}  // namespace outrigger::intranode
#endif

namespace outrigger::intranode {

// `value` never falls. Its first half is the futex word of members that sleep.
struct Flag {
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint32_t> sleepers;  // members that sleep, or are about to, until the flag is raised
};
static_assert(std::endian::native == std::endian::little, "the futex word is the first half");

}  // namespace outrigger::intranode
