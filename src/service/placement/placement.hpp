// Where the ranks and service processes of one node run: decided on the node, from its own cores. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "service/placement/service_placement.hpp"

namespace outrigger::service {

enum class BindPolicy {
  none,     // ranks stay where the launcher put them, no core is kept
  bunch,    // consecutive cores, one a rank
  scatter,  // one core a rank, in turn from each NUMA domain
  hybrid,   // ranks spread over the domains, with a block of consecutive cores each
  list,     // as given
};

struct BindRequest {
  BindPolicy policy = BindPolicy::bunch;
  std::vector<std::vector<int>> cpus_of_rank;  // of policy list: one for each local rank
};

// "bunch", "scatter", "hybrid", "none"; "0,2,4-7": one cpu a rank in this order; "0-1:2-3": one list a rank.
[[nodiscard]] Result<BindRequest> parse_bind(const std::string& text);

// Which cores no rank is put on, for service processes.
enum class KeptCores {
  wanted,  // one for each service process, as long as a core is left for ranks
  spare,   // only those that no rank would have had, or that a list of cpus names
  none,    // service processes are on a DPU: ranks may have all
};

// "wanted", "spare", "none".
[[nodiscard]] Result<KeptCores> parse_kept_cores(const std::string& text);

struct NodeRequest {
  BindRequest bind;
  std::uint32_t ranks = 0;        // of this node
  std::uint32_t services = 0;     // 0: by itself
  std::vector<int> service_cpus;  // empty: by itself
  KeptCores keep = KeptCores::wanted;
  OtherJobs others;         // what they have is left to them while there are enough other cores
  std::uint32_t nodes = 1;  // pretended: its ranks are split into so many, each with service processes of its own
};

struct RankPlace {
  std::vector<int> cpus;      // empty: not bound
  int domain = -1;            // -1: of no one domain
  std::uint32_t cores = 0;    // whole or part of, that `cpus` touches
  bool shared = false;        // with other ranks
  std::uint32_t node = 0;     // pretended
  std::uint32_t service = 0;  // index into NodePlacement::services
};

struct NodePlacement {
  std::vector<RankPlace> ranks;
  std::vector<ServicePlace> services;
  std::vector<int> service_cpus;  // the cores kept, a cpu each, by domain; empty: none is kept
};

// The cores kept for service processes are the last ones of each NUMA domain, as many as there are service processes;
// at least one core is left for ranks. Cores that other jobs have are left out of all this if the rest is enough for a
// core a rank and, unless spare ones only are kept, those of the service processes; otherwise they are cores like any
// other, but that those of others' ranks are kept for service processes only where there is nothing else. With more
// ranks than cores left, those of a domain share its cores. Errors: a list that does not fit the ranks, cpus that may
// not be used.
[[nodiscard]] Result<NodePlacement> place_node(const NodeRequest& request, const Topology& topology);

// The pretended node of a local rank: consecutive ranks, numbers that differ by one at most.
[[nodiscard]] std::uint32_t pretended_node(std::uint32_t local_rank, std::uint32_t ranks, std::uint32_t nodes);

}  // namespace outrigger::service
