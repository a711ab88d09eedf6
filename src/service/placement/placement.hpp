// Decides where the ranks and service processes of one node run, from the node's own cores. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "service/placement/service_placement.hpp"

namespace outrigger::service {

enum class BindPolicy {
  none,     // as the launcher does; no core is kept
  bunch,    // consecutive cores, one per rank
  scatter,  // one core per rank, round-robin over the NUMA domains
  hybrid,   // blocks of consecutive cores, spread over the domains
  list,     // an explicit list
};

struct BindRequest {
  BindPolicy policy = BindPolicy::bunch;
  std::vector<std::vector<int>> cpus_of_rank;  // for policy list: one entry per local rank
};

// "bunch", "scatter", "hybrid", "none"; "0,2,4-7": one cpu per rank in this order; "0-1:2-3": one list per rank.
[[nodiscard]] Result<BindRequest> parse_bind(const std::string& text);

// Cores kept free of ranks, for service processes.
enum class KeptCores {
  wanted,  // one per service process, if a core is left for ranks
  spare,   // only cores without ranks, or listed cpus
  none,    // service processes are on a DPU: ranks use all cores
};

[[nodiscard]] Result<KeptCores> parse_kept_cores(const std::string& text);

struct NodeRequest {
  BindRequest bind;
  std::uint32_t ranks = 0;        // of this node
  std::uint32_t services = 0;     // 0: automatic
  std::vector<int> service_cpus;  // empty: automatic
  std::vector<int> copy_cpus;     // of ranks' copiers, if service processes are on a DPU
  KeptCores keep = KeptCores::wanted;
  OtherJobs others;         // avoided while there are enough other cores
  std::uint32_t nodes = 1;  // simulated nodes: the ranks are split among them, each has its own service processes
};

struct RankPlace {
  std::vector<int> cpus;      // empty: not bound
  int domain = -1;            // -1: more than one domain
  std::uint32_t cores = 0;    // number of cores that `cpus` touches
  bool shared = false;        // with other ranks
  std::uint32_t node = 0;     // simulated node
  std::uint32_t service = 0;  // index into NodePlacement::services
};

struct NodePlacement {
  std::vector<RankPlace> ranks;
  std::vector<ServicePlace> services;
  std::vector<int> service_cpus;  // the kept cores, one cpu each, by domain; empty if none is kept
};

// Keeps the last cores of each NUMA domain for service processes, one per service process; at least one core stays for
// ranks. Leaves out other jobs' cores if the rest is enough for one core per rank and, unless only spare cores are
// kept, one per service process. Otherwise those are used like any other, except that cores with other jobs' ranks
// become service cores only as a last resort. With more ranks than cores left, the ranks of a domain share its cores.
// Errors: a list that does not fit the ranks, cpus that may not be used.
[[nodiscard]] Result<NodePlacement> place_node(const NodeRequest& request, const Topology& topology);

// The simulated node of a local rank: nodes have consecutive ranks, and sizes that differ by at most one.
[[nodiscard]] std::uint32_t pretended_node(std::uint32_t local_rank, std::uint32_t ranks, std::uint32_t nodes);

}  // namespace outrigger::service
