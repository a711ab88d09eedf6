// Detects accelerators, whose memory only an MPI that supports them can copy.
#pragma once

#include <string_view>

namespace outrigger::mpi {

// The program has loaded an accelerator's library (CUDA, ROCm, Level Zero), so any buffer may be its memory. Looks for
// libraries only on machines that may have an accelerator. Quick. Any thread.
[[nodiscard]] bool accelerator_loaded();

// Linux's list of PCI devices (/proc/bus/pci/devices) has a device of a maker of accelerators, or is empty.
[[nodiscard]] bool names_accelerator(std::string_view pci_devices);

}  // namespace outrigger::mpi
