// Detects accelerators, whose memory only an MPI that supports them can copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace outrigger::mpi {

namespace detail {
enum class Accelerators : std::uint8_t { not_looked, impossible, possible };
extern constinit std::atomic<Accelerators> accelerators;
[[nodiscard]] bool look_for_accelerator();
}  // namespace detail

// The program has loaded an accelerator's library (CUDA, ROCm, Level Zero), so any buffer may be its memory. Looks for
// libraries only on machines that may have an accelerator. Quick. Any thread.
[[nodiscard, gnu::always_inline]] inline bool accelerator_loaded() {
  const bool impossible = detail::accelerators.load(std::memory_order_relaxed) == detail::Accelerators::impossible;
  return !impossible && detail::look_for_accelerator();
}

// Linux's list of PCI devices (/proc/bus/pci/devices) has a device of a maker of accelerators, or is empty.
[[nodiscard]] bool names_accelerator(std::string_view pci_devices);

}  // namespace outrigger::mpi
