// How long data stay unused after the calls that have delivered them (mpi/windows), for one place of the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrigger::report {

// How a window ended.
enum class WindowEnd : std::uint8_t {
  used,        // the program has read or written received data, or has written sent data
  mpi_call,    // no use until a call of the program that may hand the data to the MPI
  system_call  // no use until a system call, or until something else that ends all measurements
};
inline constexpr std::array<const char*, 3> kWindowEnds{"used", "mpi_call", "system_call"};

// Why a call has no window.
enum class NoWindow : std::uint8_t {
  none,
  system,   // the kernel or the processor cannot do it
  threads,  // the program has several threads
  signals,  // a signal mask has SIGSEGV or SIGSYS
  memory,   // not anonymous memory of the process alone, or a stack
  layout,   // no whole page, gaps between the data, or a call that is not measured
  others,   // others may reach all memory: one-sided communication, files, accelerators
  limit,    // too many at a time, or enough of this place
  calls     // the MPI has calls that send data and that this library does not intercept
};
inline constexpr std::array<const char*, 9> kNoWindow{"none",   "system", "threads", "signals", "memory",
                                                      "layout", "others", "limit",   "calls"};

// Only for a call site.
struct WindowFigures {
  std::uint64_t calls = 0;  // with a window
  std::array<std::uint64_t, kWindowEnds.size()> ends{};
  std::array<std::uint64_t, kNoWindow.size()> without{};  // calls without one
  std::int64_t unused_ns = 0;                             // lengths of the windows
  std::int64_t spent_ns = 0;                              // in these calls
  std::int64_t hidden_ns = 0;                             // ... as much of each as its window is long
};

}  // namespace outrigger::report
