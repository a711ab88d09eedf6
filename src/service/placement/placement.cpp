#include "service/placement/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "protocol/options/cpu_list.hpp"

namespace outrigger::service {
namespace {

using CoreIndex = std::size_t;
using Cores = std::vector<CoreIndex>;  // of the topology

// Grouped by domain, without empty domains.
std::vector<Cores> by_domain(const Topology& topology, const Cores& cores) {
  std::vector<Cores> domains;
  std::vector<int> names;
  for (const CoreIndex core : cores) {
    const int name = topology.cores[core].domain;
    const auto known = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) {
      names.push_back(name);
      domains.emplace_back();
    }
    domains[index].push_back(core);
  }
  return domains;
}

// Round-robin over the domains.
Cores in_turn(const Topology& topology, const Cores& cores) {
  const std::vector<Cores> domains = by_domain(topology, cores);
  Cores order;
  for (std::size_t round = 0; order.size() < cores.size(); ++round) {
    for (const Cores& domain : domains) {
      if (round < domain.size()) order.push_back(domain[round]);
    }
  }
  return order;
}

Cores every_core(const Topology& topology) {
  Cores cores(topology.cores.size());
  std::iota(cores.begin(), cores.end(), CoreIndex{0});
  return cores;
}

// Without cores that touch one of `cpus`.
Cores cores_without(const Topology& topology, Cores cores, const std::vector<int>& cpus) {
  std::erase_if(cores, [&](CoreIndex index) {
    const Core& core = topology.cores[index];
    return std::ranges::find_first_of(core.cpus, cpus) != core.cpus.end();
  });
  return cores;
}

// The last core of each domain, round-robin from the last domain, until there are `count`; in ascending order.
Cores last_of_each_domain(const Topology& topology, const Cores& candidates, std::size_t count) {
  std::vector<Cores> domains = by_domain(topology, candidates);
  Cores kept;
  while (kept.size() < std::min(count, candidates.size())) {
    for (auto domain = domains.rbegin(); domain != domains.rend() && kept.size() < count; ++domain) {
      if (domain->empty()) continue;
      kept.push_back(domain->back());
      domain->pop_back();
    }
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

void add_cores(RankPlace& place, const Topology& topology, const Cores& cores) {
  for (const CoreIndex core : cores) {
    const std::vector<int>& cpus = topology.cores[core].cpus;
    place.cpus.insert(place.cpus.end(), cpus.begin(), cpus.end());
  }
  place.cores = static_cast<std::uint32_t>(cores.size());
  place.domain = domain_of_cpus(topology, place.cpus);
}

// Rank i gets the i-th core. If there are too few, the ranks that a domain would get share the domain.
std::vector<RankPlace> one_core_each(const Topology& topology, const Cores& order, std::uint32_t ranks, bool turns) {
  const std::vector<Cores> domains = by_domain(topology, order);
  const bool shared = ranks > order.size();
  std::vector<RankPlace> places(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::size_t slot = !shared ? rank : turns ? rank % order.size() : std::size_t{rank} * order.size() / ranks;
    const CoreIndex core = order[slot];
    const auto home = std::find_if(domains.begin(), domains.end(), [&](const Cores& cores) {
      return std::find(cores.begin(), cores.end(), core) != cores.end();
    });
    places[rank].shared = shared;
    add_cores(places[rank], topology, shared ? *home : Cores{core});
  }
  return places;
}

std::vector<RankPlace> blocks_of_cores(const Topology& topology, const Cores& cores, std::uint32_t ranks) {
  if (ranks > cores.size()) return one_core_each(topology, cores, ranks, false);
  const std::vector<Cores> domains = by_domain(topology, cores);
  // Ranks per domain in proportion to its cores.
  std::vector<std::size_t> ranks_of(domains.size(), 0);
  std::vector<std::size_t> end_of(domains.size(), 0);
  std::transform_inclusive_scan(domains.begin(), domains.end(), end_of.begin(), std::plus<>(),
                                [](const Cores& domain) { return domain.size(); });
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::size_t core = std::size_t{rank} * cores.size() / ranks;
    const auto domain = std::upper_bound(end_of.begin(), end_of.end(), core) - end_of.begin();
    ++ranks_of[static_cast<std::size_t>(domain)];
  }
  std::vector<RankPlace> places;
  for (std::size_t domain = 0; domain < domains.size(); ++domain) {
    const std::size_t width = ranks_of[domain] == 0 ? 0 : domains[domain].size() / ranks_of[domain];
    for (std::size_t i = 0; i < ranks_of[domain]; ++i) {
      const auto first = domains[domain].begin() + static_cast<std::ptrdiff_t>(i * width);
      add_cores(places.emplace_back(), topology, Cores(first, first + static_cast<std::ptrdiff_t>(width)));
    }
  }
  return places;
}

Result<std::vector<RankPlace>> as_listed(const Topology& topology, const BindRequest& bind, std::uint32_t ranks) {
  if (bind.cpus_of_rank.size() < ranks) {
    return Error{fmt::format("the list given to --bind places {} of the {} ranks of this node; add to it, or use bunch",
                             bind.cpus_of_rank.size(), ranks)};
  }
  std::vector<RankPlace> places(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankPlace& place = places[rank];
    place.cpus = bind.cpus_of_rank[rank];
    std::set<const Core*> cores;
    for (const int cpu : place.cpus) {
      const Core* core = core_with(topology, cpu);
      if (core == nullptr) {
        return Error{fmt::format("--bind: cpu {} does not exist or may not be used here; see `outriggerd info`", cpu)};
      }
      cores.insert(core);
    }
    place.cores = static_cast<std::uint32_t>(cores.size());
    place.domain = domain_of_cpus(topology, place.cpus);
  }
  for (RankPlace& place : places) {
    place.shared = std::ranges::any_of(places, [&](const RankPlace& other) {
      return &other != &place && std::ranges::find_first_of(place.cpus, other.cpus) != place.cpus.end();
    });
  }
  return places;
}

Result<std::vector<RankPlace>> place_ranks(const BindRequest& bind, std::uint32_t ranks, const Topology& topology,
                                           const Cores& cores) {
  switch (bind.policy) {
    case BindPolicy::none: return std::vector<RankPlace>(ranks);
    case BindPolicy::bunch: return one_core_each(topology, cores, ranks, false);
    case BindPolicy::scatter: return one_core_each(topology, in_turn(topology, cores), ranks, true);
    case BindPolicy::hybrid: return blocks_of_cores(topology, cores, ranks);
    case BindPolicy::list: return as_listed(topology, bind, ranks);
  }
  return Error{"unknown bind policy"};
}

// If a list places the ranks, service processes can only have what it leaves free.
Cores candidates_for_services(const NodeRequest& request, const Topology& topology) {
  Cores candidates = every_core(topology);
  if (request.bind.policy != BindPolicy::list) return candidates;
  for (const std::vector<int>& cpus : request.bind.cpus_of_rank) {
    candidates = cores_without(topology, std::move(candidates), cpus);
  }
  return candidates;
}

std::size_t cores_wanted_for_services(const NodeRequest& request) {
  const std::uint32_t ranks_of_node = (request.ranks + request.nodes - 1) / request.nodes;
  const std::uint32_t services = request.services != 0 ? request.services : default_services(ranks_of_node);
  return std::min<std::size_t>(std::size_t{services} * request.nodes, request.ranks);
}

// Without other jobs' cores; if fewer than `least` are left, the best remaining ones.
Cores without_others(const OtherJobs& others, const Topology& topology, const Cores& candidates, std::size_t least) {
  const std::vector<int> ranks = cpus_of(others.ranks);
  Cores no_ranks = cores_without(topology, candidates, ranks);
  Cores alone = cores_without(topology, no_ranks, cpus_of(others.services));
  if (alone.size() >= least) return alone;
  if (no_ranks.size() >= least) return no_ranks;
  return candidates;
}

std::vector<int> cpus_for_services(const NodeRequest& request, const Topology& topology) {
  if (request.keep == KeptCores::none) return {};
  if (!request.service_cpus.empty()) return request.service_cpus;
  if (request.bind.policy == BindPolicy::none) return {};
  std::size_t most = topology.cores.size() - 1;
  // Everything that a list leaves free is spare.
  if (request.keep == KeptCores::spare && request.bind.policy != BindPolicy::list) {
    most = topology.cores.size() - std::min<std::size_t>(request.ranks, topology.cores.size());
  }
  const std::size_t count = std::min(cores_wanted_for_services(request), most);
  const Cores candidates = without_others(request.others, topology, candidates_for_services(request, topology),
                                          std::max<std::size_t>(count, 1));
  std::vector<int> cpus;
  for (const CoreIndex core : last_of_each_domain(topology, candidates, count)) {
    cpus.push_back(topology.cores[core].cpus.front());
  }
  return cpus;
}

// Cores without those of service processes and copiers, unless none is left.
Cores cores_for_ranks(const NodeRequest& request, const Topology& topology, const std::vector<int>& service_cpus) {
  const bool copiers = request.keep == KeptCores::none;
  const Cores cores = cores_without(topology, every_core(topology), copiers ? request.copy_cpus : service_cpus);
  return cores.empty() ? every_core(topology) : cores;
}

// Leaves out other jobs' cores if the rest is enough.
Topology left_by_others(const NodeRequest& request, const Topology& topology) {
  const bool placed = request.bind.policy != BindPolicy::list && request.bind.policy != BindPolicy::none;
  const CpuMask taken = request.others.ranks | request.others.services;
  Topology rest{{}, topology.cache_bytes};
  std::ranges::copy_if(topology.cores, std::back_inserter(rest.cores),
                       [&](const Core& core) { return untouched(core.cpus, taken); });
  const bool named = !request.service_cpus.empty() && !check_service_cpus(rest, request.service_cpus);
  // Ranks go first, unless cores are kept although ranks need them.
  const std::size_t services = request.keep == KeptCores::wanted ? cores_wanted_for_services(request) : 0;
  return placed && !named && rest.cores.size() >= request.ranks + services ? rest : topology;
}

CpuMask used_by(const std::vector<RankPlace>& ranks) {
  CpuMask mask;
  for (const RankPlace& rank : ranks) {
    if (rank.cpus.empty()) mask.set();
    for (const int cpu : rank.cpus) mask.set(static_cast<std::size_t>(cpu));
  }
  return mask;
}

// Adds the service processes of one simulated node and assigns its ranks.
void add_services(NodePlacement& placement, const NodeRequest& request, const Topology& topology, std::uint32_t node) {
  std::vector<RankPlace*> ranks;
  std::vector<int> rank_domains;
  for (RankPlace& rank : placement.ranks) {
    if (rank.node != node) continue;
    ranks.push_back(&rank);
    rank_domains.push_back(rank.domain);
  }
  PlacementRequest wanted;
  wanted.local_size = static_cast<std::uint32_t>(ranks.size());
  wanted.services = request.services;
  wanted.service_cpus = placement.service_cpus;
  wanted.keepers_here = request.nodes;
  wanted.number_here = node;
  wanted.used_by_ranks = used_by(placement.ranks);
  wanted.others = request.others;
  const std::vector<ServicePlace> services = place_services(wanted, topology);
  const std::vector<std::uint32_t> service_of = services_of_ranks(rank_domains, services, topology);
  const auto first = static_cast<std::uint32_t>(placement.services.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i]->service = first + service_of[i];
  placement.services.insert(placement.services.end(), services.begin(), services.end());
}

Result<std::vector<std::vector<int>>> parse_lists(const std::string& text) {
  std::vector<std::vector<int>> lists;
  std::stringstream stream(text);
  std::string list;
  while (std::getline(stream, list, ':')) {
    Result<std::vector<int>> cpus = parse_cpu_list(list);
    if (!cpus) return Error{cpus.error()};
    if (cpus.value().empty()) return Error{"'" + text + "' has an empty list of cpus"};
    lists.push_back(std::move(cpus).value());
  }
  if (lists.size() != 1 || text.back() == ':') return lists;
  std::vector<std::vector<int>> one_each;
  for (const int cpu : lists.front()) one_each.push_back({cpu});
  return one_each;
}

}  // namespace

Result<KeptCores> parse_kept_cores(const std::string& text) {
  if (text == "wanted") return KeptCores::wanted;
  if (text == "spare") return KeptCores::spare;
  if (text == "none") return KeptCores::none;
  return Error{fmt::format("--keep: '{}' is unknown; write wanted, spare or none", text)};
}

Result<BindRequest> parse_bind(const std::string& text) {
  BindRequest request;
  if (text == "none") {
    request.policy = BindPolicy::none;
  } else if (text == "bunch") {
    request.policy = BindPolicy::bunch;
  } else if (text == "scatter") {
    request.policy = BindPolicy::scatter;
  } else if (text == "hybrid") {
    request.policy = BindPolicy::hybrid;
  } else {
    Result<std::vector<std::vector<int>>> lists = parse_lists(text);
    if (!lists || lists.value().empty()) {
      return Error{
          fmt::format("--bind {}: write bunch, scatter, hybrid, none, or cpus: 0,2,4-7 (one per rank) or 0-1:2-3 (one "
                      "list per rank)",
                      text)};
    }
    request.policy = BindPolicy::list;
    request.cpus_of_rank = std::move(lists).value();
  }
  return request;
}

Result<NodePlacement> place_node(const NodeRequest& request, const Topology& machine) {
  const Topology topology = left_by_others(request, machine);
  if (topology.cores.empty() || request.ranks == 0) return Error{"there is no core or no rank to place"};
  if (request.nodes == 0 || request.nodes > request.ranks) {
    return Error{fmt::format("OUTRIGGER_PRETEND_NODES={}: a job of {} {} can be as many nodes at most", request.nodes,
                             request.ranks, request.ranks == 1 ? "rank" : "ranks")};
  }
  if (const Status usable = check_service_cpus(topology, request.service_cpus); !usable) return Error{usable.error()};
  if (const Status usable = check_copy_cpus(machine, request.copy_cpus); !usable) return Error{usable.error()};
  NodePlacement placement;
  placement.service_cpus = cpus_for_services(request, topology);
  Result<std::vector<RankPlace>> ranks =
      place_ranks(request.bind, request.ranks, topology, cores_for_ranks(request, topology, placement.service_cpus));
  if (!ranks) return Error{ranks.error()};
  placement.ranks = std::move(ranks).value();
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    placement.ranks[rank].node = pretended_node(rank, request.ranks, request.nodes);
  }
  for (std::uint32_t node = 0; node < request.nodes; ++node) add_services(placement, request, topology, node);
  return placement;
}

std::uint32_t pretended_node(std::uint32_t local_rank, std::uint32_t ranks, std::uint32_t nodes) {
  return static_cast<std::uint32_t>(std::uint64_t{local_rank} * nodes / ranks);
}

}  // namespace outrigger::service
