// Guards of a program's memory: they find when the program first uses data that a collective has delivered.
//
// A guard takes access to whole pages away (mprotect). The first access faults; the handler records the time, gives the
// access back, and the program's instruction runs again. The kernel must not meet a guarded page, since a system call
// would fail: while a guard lasts, system calls of the thread are dispatched to a handler (Syscall User Dispatch). It
// ends all guards and repeats the call; calls that cannot touch guarded memory run at once. The same way ends guards at
// fork(), munmap(), and before the program changes a signal's action or mask. Both handlers are installed only as long
// as a guard lasts. So the program finds its own ones as it has left them. Any other fault ends all guards and happens
// again, for the program's handler.
//
// Other processes must not meet a guarded page either. All guards end when the program hands data to the MPI
// (mpi/report/data_calls.hpp).
//
// Thread rule: any thread, but a guard is refused if the program has several (Unguarded::threads).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mpi/windows/own_memory.hpp"
#include "report/window_figures.hpp"

namespace outrigger::mpi {

using GuardEnd = report::WindowEnd;
using Unguarded = report::NoWindow;

// The call whose data are guarded.
struct GuardedCall {
  void* owner = nullptr;  // the caller's, for example a row
  std::int64_t spent_ns = 0;
};
struct EndedGuard {
  GuardedCall call;
  std::int64_t lasted_ns = 0;
  GuardEnd end = GuardEnd::used;
};

namespace detail {
extern constinit std::atomic<std::uint32_t> guards;
}
// True if some memory is guarded.
[[nodiscard]] inline bool guarding() {
  return detail::guards.load(std::memory_order_relaxed) != 0;
}

inline constexpr std::size_t kMostGuards = 8;  // further calls are not measured

// Guards these pages for one call, from now until the first use of one of them.
[[nodiscard]] Unguarded guard(const GuardedCall& call, std::span<const GuardedPages> pages);
// False: nothing was guarded yet, and nothing will be. Known before MPI_Init has ended.
[[nodiscard]] bool may_guard();
// Gives all memory back.
void end_guards(GuardEnd why);
// From now on there are no more guards. By default: other processes may reach memory at any time.
void forbid_guards(Unguarded why = Unguarded::others);
// The oldest guard that has ended and has not been taken. False: none.
[[nodiscard]] bool take_ended_guard(EndedGuard& ended);

// Calls by which other processes reach memory will pass without ending guards. So there will be none.
void note_passed_calls();
// Around the MPI's own initialization: threads that it starts do not use the program's data. Without these there are no
// guards.
void note_threads_before_mpi();
void note_threads_of_mpi();

}  // namespace outrigger::mpi
