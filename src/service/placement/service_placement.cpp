#include "service/placement/service_placement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/options/settings.hpp"

namespace outrigger::service {
namespace {

std::uint32_t count_services(const PlacementRequest& request, std::size_t candidates) {
  std::uint32_t count = request.services;
  if (count == 0) {
    count = default_services(request.local_size);
    if (candidates != 0) count = std::min(count, static_cast<std::uint32_t>(candidates));
  }
  return std::clamp<std::uint32_t>(count, 1, std::max(1U, std::min(request.local_size, kMaxServices)));
}

// One cpu of each core that a service process may use; first those without another job's service process.
struct Candidates {
  std::vector<int> cpus;
  std::size_t alone = 0;  // the first `alone` ones
};

Candidates candidates_of(const PlacementRequest& request, const Topology& topology) {
  Candidates found;
  const bool named = !request.service_cpus.empty();
  found.cpus = named ? request.service_cpus : free_cpus(topology, request.used_by_ranks | request.others.ranks);
  found.alone = found.cpus.size();
  if (named) return found;  // in the order given
  const auto shared = std::ranges::stable_partition(
      found.cpus, [&](int cpu) { return core_is_free(topology, cpu, request.others.services); });
  found.alone -= shared.size();
  return found;
}

// The share of a service process that is not bound.
copy::CoreShare unbound_share(const PlacementRequest& request) {
  const std::size_t others = (request.others.ranks | request.others.services).count();
  const bool room = std::size_t{request.local_size} + others < request.usable_cpus;
  return room ? copy::CoreShare::idle : copy::CoreShare::none;
}

Status check_cpus(const Topology& topology, const std::vector<int>& cpus, const char* use, const char* variable) {
  const auto unusable = std::ranges::find_if(cpus, [&](int cpu) { return core_with(topology, cpu) == nullptr; });
  if (unusable == cpus.end()) return Done{};
  return Error{fmt::format("cpu {} for {} ({}) does not exist or may not be used here; see `outriggerd info --json`",
                           *unusable, use, variable)};
}

}  // namespace

std::uint32_t default_services(std::uint32_t ranks) {
  return std::max(1U, (ranks + kRanksPerService - 1) / kRanksPerService);
}

Status check_service_cpus(const Topology& topology, const std::vector<int>& cpus) {
  return check_cpus(topology, cpus, "service processes", setting::kServiceCpus);
}

Status check_copy_cpus(const Topology& topology, const std::vector<int>& cpus) {
  return check_cpus(topology, cpus, "copies", setting::kCopyCpus);
}

std::vector<ServicePlace> place_services(const PlacementRequest& request, const Topology& topology) {
  using copy::CoreShare;
  const bool named = !request.service_cpus.empty();
  const bool pretends = request.keepers_here > 1;
  const auto [candidates, alone] = candidates_of(request, topology);
  const std::uint32_t count = count_services(request, alone != 0 ? alone : candidates.size());
  const bool crowded = pretends && std::size_t{request.keepers_here} * count > candidates.size();
  std::vector<ServicePlace> places(count, ServicePlace{-1, unbound_share(request)});
  for (std::uint32_t i = 0; i < count && !candidates.empty(); ++i) {
    const std::size_t turn = std::size_t{request.number_here} * count + i;
    if (turn >= candidates.size() && !named && !pretends) break;
    const int cpu = candidates[turn % candidates.size()];
    const pid_t other = request.others.one_at(cpus_beside(topology, cpu));
    const bool free_of_own = !crowded && core_is_free(topology, cpu, request.used_by_ranks);
    places[i] = {cpu, free_of_own && other == 0 ? CoreShare::own : CoreShare::shared, other, free_of_own};
  }
  for (ServicePlace& place : places) {
    const auto same_cpu = [&](const ServicePlace& other) { return other.cpu == place.cpu; };
    if (place.cpu < 0 || std::ranges::count_if(places, same_cpu) == 1) continue;
    place.core_share = CoreShare::shared;
    place.free_of_own = false;
  }
  return places;
}

std::vector<std::uint32_t> services_of_ranks(const std::vector<int>& rank_domains,
                                             const std::vector<int>& service_domains) {
  const std::size_t ranks = rank_domains.size();
  const std::size_t services = service_domains.size();
  std::vector<std::size_t> room(services);
  const auto first_rank_of = [&](std::size_t sp) { return (sp * ranks + services - 1) / services; };
  for (std::size_t sp = 0; sp < services; ++sp) room[sp] = first_rank_of(sp + 1) - first_rank_of(sp);
  constexpr auto kNobody = static_cast<std::uint32_t>(-1);
  std::vector<std::uint32_t> chosen(ranks, kNobody);
  const auto assign = [&](std::size_t rank, bool own_domain_only) {
    for (std::size_t sp = 0; sp < services && chosen[rank] == kNobody; ++sp) {
      const bool own = rank_domains[rank] >= 0 && service_domains[sp] == rank_domains[rank];
      if (room[sp] == 0 || (own_domain_only && !own)) continue;
      chosen[rank] = static_cast<std::uint32_t>(sp);
      --room[sp];
    }
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) assign(rank, true);
  for (std::size_t rank = 0; rank < ranks; ++rank) assign(rank, false);
  return chosen;
}

std::vector<std::uint32_t> services_of_ranks(const std::vector<int>& rank_domains,
                                             const std::vector<ServicePlace>& services, const Topology& topology) {
  std::vector<int> domains;
  for (const ServicePlace& service : services) {
    domains.push_back(service.cpu < 0 ? -1 : domain_of_cpus(topology, {service.cpu}));
  }
  return services_of_ranks(rank_domains, domains);
}

}  // namespace outrigger::service
