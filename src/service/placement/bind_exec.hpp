// `outriggerd exec`: bind to the cores of this local rank, then become the program. `outriggerd place`: say where all
// go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "service/placement/cores.hpp"

namespace outrigger::service {

struct BindOptions {
  std::string bind;               // see parse_bind
  std::uint32_t services = 0;     // per node; 0: by itself
  std::string keep = "wanted";    // see parse_kept_cores
  std::string others_ranks{};     // cpus that other jobs have, for their ranks ...
  std::string others_services{};  // ... and their service processes
};

struct BindExecOptions {
  BindOptions binding{.bind = "none"};
  std::string preload;  // put in front of LD_PRELOAD; empty: nothing
  std::vector<std::string> command;
};

// What the MPI's launcher says of this process.
struct LauncherRank {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
};

// From the variables that Open MPI, hydra (MPICH, Intel MPI) and Slurm set. Errors: none is set, or what it says is no
// number or does not fit.
[[nodiscard]] Result<LauncherRank> local_rank_of_environment();

// The tasks of node `node` in Slurm's form: "2(x3),1" is 2, 2, 2, 1.
[[nodiscard]] Result<std::uint32_t> tasks_of_node(const std::string& tasks_per_node, std::uint32_t node);

// What other jobs have is only what the options say: it must be the same for all ranks of the node, who would not all
// see the same if each of them looked for itself. Returns only on failure. A node whose cores cannot be known or bound
// is no failure: its ranks go on unbound, and a line says so. Where cores are bound, the service processes' cores are
// named in OUTRIGGER_SERVICE_CPUS unless that is set; likewise OMP_NUM_THREADS under hybrid, and the MPI's variables
// where ranks share cores.
[[nodiscard]] Error bind_and_exec(const BindExecOptions& options);

struct PlaceOptions {
  BindOptions binding{.bind = "bunch"};
  std::uint32_t ranks = 1;
  std::uint32_t pretend_nodes = 1;
  bool heed_others = false;  // what other jobs claim now (core_claims.hpp), too
};

// Where `exec` would put the ranks of a node with this topology, as JSON, and what other jobs have there.
[[nodiscard]] Result<std::string> describe_placement(const PlaceOptions& options, const Topology& topology);

}  // namespace outrigger::service
