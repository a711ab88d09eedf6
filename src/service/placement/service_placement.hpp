// How many service processes a node has, where each runs, who shares its core, and which ranks it serves. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "copy/core_share.hpp"
#include "service/placement/core_claims.hpp"
#include "service/placement/cores.hpp"

namespace outrigger::service {

struct ServicePlace {
  int cpu = -1;  // -1: not pinned
  copy::CoreShare core_share = copy::CoreShare::none;
  pid_t other_job = 0;       // a process of another job that also has this core; -1: unknown process; 0: none
  bool free_of_own = false;  // no rank or other service process of this job is on this core
};

struct PlacementRequest {
  std::uint32_t local_size = 0;
  std::uint32_t usable_cpus = 0;  // by a service process that is not bound
  std::uint32_t services = 0;     // 0: automatic
  std::vector<int> service_cpus;  // empty: cores free of ranks
  CpuMask used_by_ranks;
  OtherJobs others;  // cores with their ranks are not chosen; cores with their service processes only as a last resort
  std::uint32_t keepers_here = 1;  // simulated nodes on this machine, which share the cores
  std::uint32_t number_here = 0;
};

// The default: one for every eight ranks.
[[nodiscard]] std::uint32_t default_services(std::uint32_t ranks);

// Error: the first of these cpus that does not exist or may not be used here.
[[nodiscard]] Status check_service_cpus(const Topology& topology, const std::vector<int>& cpus);
[[nodiscard]] Status check_copy_cpus(const Topology& topology, const std::vector<int>& cpus);

// At least one, never more than ranks.
[[nodiscard]] std::vector<ServicePlace> place_services(const PlacementRequest& request, const Topology& topology);

// The service process of each rank: one of its own domain (-1: any) while it has room, neighbouring ranks together.
// Loads differ by at most one rank.
[[nodiscard]] std::vector<std::uint32_t> services_of_ranks(const std::vector<int>& rank_domains,
                                                           const std::vector<int>& service_domains);
[[nodiscard]] std::vector<std::uint32_t> services_of_ranks(const std::vector<int>& rank_domains,
                                                           const std::vector<ServicePlace>& services,
                                                           const Topology& topology);

}  // namespace outrigger::service
