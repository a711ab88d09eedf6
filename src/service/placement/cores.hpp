// Which cores there are, which of them ranks leave free, and binding to one (hwloc).
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
  int domain = 0;         // the NUMA domain (or the socket, where those are smaller), counted from 0
};

struct Topology {
  std::vector<Core> cores;        // that this process may use, in hwloc's logical order
  std::uint64_t cache_bytes = 0;  // of the largest last-level cache; 0: not known
};

// Errors: hwloc cannot read this machine.
[[nodiscard]] Result<Topology> read_topology();
// Only the cpus to which this process is bound now; the whole topology where that cannot be asked.
[[nodiscard]] Topology within_affinity(const Topology& topology);

// Binds the calling thread. Errors: the cpu does not exist or is not allowed.
[[nodiscard]] Status bind_thread_to_cpu(int cpu);
[[nodiscard]] Status bind_process_to_cpus(const std::vector<int>& cpus);
// Back to every cpu that the machine or container allows, whatever was inherited.
void reset_process_affinity();

// "0,2-4": cpu numbers in the order written.
[[nodiscard]] Result<std::vector<int>> parse_cpu_list(const std::string& text);

[[nodiscard]] std::vector<int> cpus_of(const CpuMask& mask);
// The core with this cpu; nullptr: none that this process may use.
[[nodiscard]] const Core* core_with(const Topology& topology, int cpu);
// All of its core's, itself included: hardware threads share a core. Alone where core_with() finds none.
[[nodiscard]] std::vector<int> cpus_beside(const Topology& topology, int cpu);
// Is none of `cpus` in the mask?
[[nodiscard]] bool untouched(const std::vector<int>& cpus, const CpuMask& mask);
// The domain that all of `cpus` are in; -1: none.
[[nodiscard]] int domain_of_cpus(const Topology& topology, const std::vector<int>& cpus);
// One hardware thread of each core that no bit of `used_by_ranks` touches, the last core first.
[[nodiscard]] std::vector<int> free_cpus(const Topology& topology, const CpuMask& used_by_ranks);
// Is no hardware thread of the core with this cpu in `used_by_ranks`?
[[nodiscard]] bool core_is_free(const Topology& topology, int cpu, const CpuMask& used_by_ranks);

// On which the calling thread may run.
[[nodiscard]] std::vector<int> usable_cpus();

}  // namespace outrigger::service
