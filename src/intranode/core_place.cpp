#include "intranode/core_place.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/file_text.hpp"

namespace outrigger::intranode {
namespace {

using Cpus = std::vector<std::uint32_t>;

// Ranges such as 0-3,8. Stops at what is no list.
Cpus cpus_in(std::string_view text) {
  Cpus cpus;
  const auto number = [&text](std::uint32_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc();
  };
  std::uint32_t first = 0;
  while (number(first)) {
    std::uint32_t last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!number(last) || last - first >= CPU_SETSIZE) break;
    }
    for (std::uint32_t cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return cpus;
}

Cpus own_cpus() {
  Cpus cpus;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Both in ascending order.
bool holds(const Cpus& all, const Cpus& some) {
  return !some.empty() && std::ranges::includes(all, some);
}

// The one with the highest number is the last level.
Cpus sharing_last_cache(const std::string& system, std::uint32_t cpu) {
  Cpus found;
  for (int level = 0;; ++level) {
    const std::string path = system + "/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(level);
    Cpus shared = cpus_in(text_of_file(path + "/shared_cpu_list"));
    if (shared.empty()) return found;
    found = std::move(shared);
  }
}

std::uint32_t numa_node_of(const std::string& system, const Cpus& cpus) {
  for (const std::uint32_t node : cpus_in(text_of_file(system + "/node/online"))) {
    const std::string path = system + "/node/node" + std::to_string(node) + "/cpulist";
    if (holds(cpus_in(text_of_file(path)), cpus)) return node;
  }
  return CorePlace::kSeveral;
}

}  // namespace

CorePlace own_core_place(const std::string& system) {
  const Cpus cpus = own_cpus();
  CorePlace place{.node = numa_node_of(system, cpus)};
  if (!place.is_known()) return place;
  const Cpus shared = sharing_last_cache(system, cpus.front());
  if (holds(shared, cpus)) place.cache = shared.front();
  return place;
}

}  // namespace outrigger::intranode
