// Measures the memory rates of this machine's cores for a cluster file, with the functions that service processes use.
#pragma once

#include <cstdint>
#include <vector>

namespace outrigger::sim {

// One core's copies between two buffers with this total size.
struct CopyRates {
  std::uint64_t bytes;
  std::vector<double> samples;
};

// Bytes per second, one value per sample.
struct Rates {
  std::vector<double> copy;         // one core, blocks that fit into its caches
  std::vector<double> reduce;       // one core: result bytes of a sum of two vectors of doubles
  std::vector<double> memory;       // all usable cores at once, blocks larger than any cache: reads and writes
  std::vector<CopyRates> by_bytes;  // for block sizes from fitting into every cache to fitting into none
  std::vector<CopyRates> kernel;    // the same by the kernel, as between two processes; empty if it is not allowed
};

// Takes about 0.2 s per sample, and needs memory for a thread on each core.
[[nodiscard]] Rates measure_rates(std::uint32_t samples);

}  // namespace outrigger::sim
