// How much of this process's memory is in huge pages.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace outrigger {

// Bytes in huge pages of the mappings in [begin, end).
inline std::uint64_t huge_bytes_between(std::uint64_t begin, std::uint64_t end) {
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t kib = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint64_t count = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &low, &high) == 2) inside = low < end && high > begin;
    if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &count) == 1) kib += count;
  }
  return kib << 10;
}

}  // namespace outrigger
