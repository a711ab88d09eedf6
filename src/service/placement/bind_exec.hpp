// `outriggerd exec` binds itself to the cores of this local rank, then becomes the program. `outriggerd place` prints
// where all ranks go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "service/placement/cores.hpp"

namespace outrigger::service {

struct BindOptions {
  std::string bind;               // see parse_bind
  std::uint32_t services = 0;     // per node; 0: automatic
  std::string keep = "wanted";    // see parse_kept_cores
  std::string others_ranks{};     // cpus that other jobs use for their ranks ...
  std::string others_services{};  // ... and for their service processes
  std::string copy_cpus{};        // of ranks' copiers
};

struct BindExecOptions {
  BindOptions binding{.bind = "none"};
  std::string preload;  // prepended to LD_PRELOAD; empty: nothing
  std::vector<std::string> command;
};

// This process's place, from the MPI launcher's variables.
struct LauncherRank {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
};

// From the variables of Open MPI, hydra (MPICH, Intel MPI) and Slurm. Errors: none is set, or a value is not a number
// or out of range.
[[nodiscard]] Result<LauncherRank> local_rank_of_environment();

// The number of tasks of `node`, from Slurm's form: "2(x3),1" is 2, 2, 2, 1.
[[nodiscard]] Result<std::uint32_t> tasks_of_node(const std::string& tasks_per_node, std::uint32_t node);

// Other jobs' cores come from the options only, because all ranks of the node must see the same ones. Returns only on
// failure. If the node's cores cannot be read or bound, the ranks run unbound and one prints a line. With bound cores,
// sets OUTRIGGER_SERVICE_CPUS to the service processes' cores unless it is set; likewise OMP_NUM_THREADS under hybrid,
// and the MPI's variables if ranks share cores.
[[nodiscard]] Error bind_and_exec(const BindExecOptions& options);

struct PlaceOptions {
  BindOptions binding{.bind = "bunch"};
  std::uint32_t ranks = 1;
  std::uint32_t pretend_nodes = 1;
  bool heed_others = false;  // adds the current claims of other jobs (core_claims.hpp)
};

// Where `exec` would put the ranks of a node with this topology, and the cores of other jobs, as JSON.
[[nodiscard]] Result<std::string> describe_placement(const PlaceOptions& options, const Topology& topology);

}  // namespace outrigger::service
