// Where in the machine a process computes, as far as its binding tells: its last-level cache and its NUMA node.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace outrigger::intranode {

struct CorePlace {
  static constexpr std::uint32_t kSeveral = UINT32_MAX;

  std::uint32_t node = kSeveral;   // NUMA
  std::uint32_t cache = kSeveral;  // by the lowest CPU that shares it

  [[nodiscard]] bool is_known() const { return node != kSeveral; }
  auto operator<=>(const CorePlace&) const = default;
};

// The calling thread's. `system`: the kernel's description of the machine.
[[nodiscard]] CorePlace own_core_place(const std::string& system = "/sys/devices/system");

}  // namespace outrigger::intranode
