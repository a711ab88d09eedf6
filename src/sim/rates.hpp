// What this machine's cores do with memory: the rates of a cluster file, measured by what service processes use.
#pragma once

#include <cstdint>
#include <vector>

namespace outrigger::sim {

// One core's copies between two buffers that have so many bytes together.
struct CopyRates {
  std::uint64_t bytes;
  std::vector<double> samples;
};

// Bytes a second, of each sample.
struct Rates {
  std::vector<double> copy;         // one core, blocks that its caches may hold
  std::vector<double> reduce;       // one core: bytes of a sum of two vectors of doubles
  std::vector<double> memory;       // all cores that may be used at once, blocks that no cache holds: read and written
  std::vector<CopyRates> by_bytes;  // from what any cache holds to what none does
  std::vector<CopyRates> kernel;    // the same by the kernel, as between two processes; empty: it does not
};

// Takes about so many times 0.2 s, and memory for a thread on each core.
[[nodiscard]] Rates measure_rates(std::uint32_t samples);

}  // namespace outrigger::sim
