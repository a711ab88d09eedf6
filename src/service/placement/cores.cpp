#include "service/placement/cores.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace outrigger::service {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using HwlocBitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

// Switches off parts of hwloc that are not needed. Its plugins look for devices and load graphics libraries; its x86
// part moves this thread to every cpu in turn and waits there behind computing processes. A value set by the user is
// kept.
class WithoutPlugins {
 public:
  WithoutPlugins() : set_(::getenv(kPath) == nullptr && ::setenv(kPath, "/dev/null", 0) == 0) {}
  WithoutPlugins(const WithoutPlugins&) = delete;
  WithoutPlugins& operator=(const WithoutPlugins&) = delete;
  ~WithoutPlugins() {
    if (set_) (void)::unsetenv(kPath);  // so that programs started from here can use plugins
  }

 private:
  static constexpr const char* kPath = "HWLOC_PLUGINS_PATH";
  bool set_;
};

HwlocTopology load_topology(bool by_each_cpu) {
  const WithoutPlugins without_plugins;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  HwlocTopology topology(raw);
  if (!by_each_cpu) (void)hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

bool knows_cores(hwloc_topology* topology) {
  return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
}

HwlocTopology load_topology() {
  HwlocTopology topology = load_topology(false);
  return topology && knows_cores(topology.get()) ? std::move(topology) : load_topology(true);
}

Status cannot_bind_to(const std::string& cpus) {
  return Error{"cannot bind to cpu " + cpus + ": " + std::strerror(errno) +
               "; see `outriggerd info --json` for the cpus that may be used"};
}

Status bind_to(const std::vector<int>& cpus, int flags) {
  const HwlocTopology topology = load_topology();
  const HwlocBitmap set(hwloc_bitmap_alloc());
  if (!topology || !set) return Error{"hwloc cannot read this machine's topology"};
  std::string names;
  for (const int cpu : cpus) {
    (void)hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
    names += fmt::format("{}{}", names.empty() ? "" : ",", cpu);
  }
  return hwloc_set_cpubind(topology.get(), set.get(), flags) == 0 ? Status(Done{}) : cannot_bind_to(names);
}

// Objects under the same NUMA domain and the same socket have the same key.
std::pair<int, int> domain_key(hwloc_topology* topology, hwloc_obj* object) {
  const hwloc_obj* package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
  return {package == nullptr ? -1 : static_cast<int>(package->logical_index),
          object->nodeset == nullptr ? -1 : hwloc_bitmap_first(object->nodeset)};
}

std::uint64_t last_level_cache_bytes(hwloc_topology* topology) {
  std::uint64_t largest = 0;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    for (hwloc_obj* cache = nullptr; (cache = hwloc_get_next_obj_by_type(topology, type, cache)) != nullptr;) {
      largest = std::max<std::uint64_t>(largest, cache->attr->cache.size);
    }
  }
  return largest;
}

}  // namespace

Result<Topology> read_topology() {
  const HwlocTopology hwloc = load_topology();
  if (!hwloc) return Error{"hwloc cannot read this machine's topology"};
  const hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(hwloc.get());
  Topology topology;
  // If the system does not tell which cpus make a core, each is one.
  const hwloc_obj_type_t type = knows_cores(hwloc.get()) ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<std::pair<int, int>> domains;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(hwloc.get(), type, object)) != nullptr) {
    Core core;
    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
      if (hwloc_bitmap_isset(allowed, static_cast<unsigned>(cpu)) != 0) core.cpus.push_back(cpu);
    }
    if (core.cpus.empty()) continue;
    const std::pair<int, int> key = domain_key(hwloc.get(), object);
    const auto known = std::find(domains.begin(), domains.end(), key);
    core.domain = static_cast<int>(known - domains.begin());
    if (known == domains.end()) domains.push_back(key);
    topology.cores.push_back(std::move(core));
  }
  topology.cache_bytes = last_level_cache_bytes(hwloc.get());
  if (topology.cores.empty()) return Error{"hwloc sees no core that this process may use"};
  return topology;
}

Topology within_affinity(const Topology& topology) {
  const HwlocTopology hwloc = load_topology();
  const HwlocBitmap set(hwloc_bitmap_alloc());
  // A topology of another machine (HWLOC_SYNTHETIC, HWLOC_XMLFILE) does not apply to this process.
  if (!hwloc || !set || hwloc_topology_is_thissystem(hwloc.get()) == 0 ||
      hwloc_get_cpubind(hwloc.get(), set.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    return topology;
  }
  Topology result;
  result.cache_bytes = topology.cache_bytes;
  for (const Core& core : topology.cores) {
    Core part{{}, core.domain};
    for (const int cpu : core.cpus) {
      if (hwloc_bitmap_isset(set.get(), static_cast<unsigned>(cpu)) != 0) part.cpus.push_back(cpu);
    }
    if (!part.cpus.empty()) result.cores.push_back(std::move(part));
  }
  return result.cores.empty() ? topology : result;
}

Status bind_thread_to_cpu(int cpu) {
  // Without hwloc, which would read the whole machine while ranks wait in MPI_Init.
  cpu_set_t one;
  CPU_ZERO(&one);
  if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &one);
  return ::sched_setaffinity(0, sizeof(one), &one) == 0 ? Status(Done{}) : cannot_bind_to(std::to_string(cpu));
}

Status bind_process_to_cpus(const std::vector<int>& cpus) {
  return bind_to(cpus, HWLOC_CPUBIND_PROCESS);
}

void reset_process_affinity() {
  cpu_set_t every;
  std::memset(&every, 0xFF, sizeof(every));
  (void)::sched_setaffinity(0, sizeof(every), &every);  // the kernel intersects it with the cpuset
}

std::vector<int> cpus_of(const CpuMask& mask) {
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (mask.test(cpu)) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

const Core* core_with(const Topology& topology, int cpu) {
  const auto has_cpu = [cpu](const Core& core) { return std::ranges::find(core.cpus, cpu) != core.cpus.end(); };
  const auto found = std::ranges::find_if(topology.cores, has_cpu);
  return found == topology.cores.end() ? nullptr : &*found;
}

std::vector<int> cpus_beside(const Topology& topology, int cpu) {
  const Core* core = core_with(topology, cpu);
  return core == nullptr ? std::vector<int>{cpu} : core->cpus;
}

bool untouched(const std::vector<int>& cpus, const CpuMask& mask) {
  return std::ranges::none_of(
      cpus, [&](int cpu) { return cpu < static_cast<int>(kMaxCpus) && mask.test(static_cast<std::size_t>(cpu)); });
}

int domain_of_cpus(const Topology& topology, const std::vector<int>& cpus) {
  int domain = -1;
  for (const int cpu : cpus) {
    const Core* core = core_with(topology, cpu);
    if (core == nullptr || (domain >= 0 && core->domain != domain)) return -1;
    domain = core->domain;
  }
  return domain;
}

std::vector<int> free_cpus(const Topology& topology, const CpuMask& used_by_ranks) {
  std::vector<int> cpus;
  for (auto core = topology.cores.rbegin(); core != topology.cores.rend(); ++core) {
    if (untouched(core->cpus, used_by_ranks)) cpus.push_back(core->cpus.front());
  }
  return cpus;
}

bool core_is_free(const Topology& topology, int cpu, const CpuMask& used_by_ranks) {
  const Core* core = core_with(topology, cpu);
  return core != nullptr && untouched(core->cpus, used_by_ranks);
}

std::vector<int> usable_cpus() {
  std::array<cpu_set_t, 8> set{};
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(set), set.data()) != 0) return cpus;
  for (std::size_t cpu = 0; cpu < 8 * sizeof(set); ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(set), set.data())) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace outrigger::service
