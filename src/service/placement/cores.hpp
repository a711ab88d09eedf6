// The machine's cores, those that ranks leave free, and binding to one (hwloc).
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger::service {

using CpuMask = std::bitset<kMaxCpus>;

struct Core {
  std::vector<int> cpus;  // its hardware threads that this process may use, lowest first
  int domain = 0;         // the NUMA domain (or the socket, if smaller), counted from 0
};

struct Topology {
  std::vector<Core> cores;        // usable by this process, in hwloc's logical order
  std::uint64_t cache_bytes = 0;  // of the largest last-level cache; 0: unknown
};

// Errors: hwloc cannot read this machine.
[[nodiscard]] Result<Topology> read_topology();
// Only the cpus to which this process is bound now; the whole topology if the kernel does not tell.
[[nodiscard]] Topology within_affinity(const Topology& topology);

// Binds the calling thread. Errors: the cpu does not exist or is not allowed.
[[nodiscard]] Status bind_thread_to_cpu(int cpu);
[[nodiscard]] Status bind_process_to_cpus(const std::vector<int>& cpus);
// Allows every cpu of the machine or container, whatever was inherited.
void reset_process_affinity();

[[nodiscard]] std::vector<int> cpus_of(const CpuMask& mask);
// The core with this cpu; nullptr if this process may use none such.
[[nodiscard]] const Core* core_with(const Topology& topology, int cpu);
// All cpus of this cpu's core, itself included; only itself if core_with() finds none.
[[nodiscard]] std::vector<int> cpus_beside(const Topology& topology, int cpu);
// True if no cpu of `cpus` is in the mask.
[[nodiscard]] bool untouched(const std::vector<int>& cpus, const CpuMask& mask);
// The domain that has all of `cpus`; -1 if none has.
[[nodiscard]] int domain_of_cpus(const Topology& topology, const std::vector<int>& cpus);
// One hardware thread of each core without a bit in `used_by_ranks`, the last core first.
[[nodiscard]] std::vector<int> free_cpus(const Topology& topology, const CpuMask& used_by_ranks);
// True if no hardware thread of the core with this cpu is in `used_by_ranks`.
[[nodiscard]] bool core_is_free(const Topology& topology, int cpu, const CpuMask& used_by_ranks);

// The cpus of the calling thread's affinity mask.
[[nodiscard]] std::vector<int> usable_cpus();

}  // namespace outrigger::service
