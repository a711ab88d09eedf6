// Detects calls by the MPI library itself: MPI-IO and some collective components call public MPI functions from inside.
// Those calls are for the native MPI.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace outrigger::mpi {

namespace detail {
// Call sites are few: a small direct-mapped cache keeps their verdicts, with address and verdict in one word so that
// threads never see halves. User-space addresses leave the low bit free after a shift.
inline constexpr std::size_t kKnownCallers = 256;
extern constinit std::array<std::atomic<std::uint64_t>, kKnownCallers> known_callers;
// Usually 0: threads check their own counter only if this is not.
extern constinit std::atomic<std::uint32_t> passing;
[[nodiscard]] bool is_passing_here();
[[nodiscard]] bool look_at_caller(const void* return_address);
[[nodiscard]] constexpr std::size_t caller_entry_of(std::uintptr_t address) {
  return (address ^ (address >> 9)) % kKnownCallers;
}
}  // namespace detail

// True if `return_address` is in the loaded libmpi or one of its plugins, or if a profiling tool calls on behalf of
// one. Any thread; no allocation.
[[nodiscard, gnu::always_inline]] inline bool called_by_mpi(const void* return_address) {
  if (detail::passing.load(std::memory_order_relaxed) != 0 && detail::is_passing_here()) [[unlikely]]
    return true;
  const auto address = reinterpret_cast<std::uintptr_t>(return_address);
  const std::uint64_t known = detail::known_callers[detail::caller_entry_of(address)].load(std::memory_order_relaxed);
  if (known >> 1 == address) [[likely]]
    return (known & 1U) != 0;
  return detail::look_at_caller(return_address);
}

// During its life all calls of this thread count as calls by the MPI library: a tool is in between.
class PassingForMpi {
 public:
  PassingForMpi();
  PassingForMpi(const PassingForMpi&) = delete;
  PassingForMpi& operator=(const PassingForMpi&) = delete;
  ~PassingForMpi();
};

}  // namespace outrigger::mpi
