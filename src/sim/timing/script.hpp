// A program in virtual time: each rank repeats the same list of steps at its own pace. It works, posts collectives and
// waits for them. Ranks do not synchronize at the end of a repetition.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "sim/timing/side.hpp"
#include "sim/timing/workload.hpp"

namespace outrigger::sim::timing {

// Computation.
struct Work {
  std::uint64_t time_ns = 0;
};
// `call` of the workload; nonblocking, until a Wait names the request.
struct Post {
  std::uint32_t call = 0;
  std::uint32_t request = 0;
};
struct Wait {
  std::vector<std::uint32_t> requests;
};
using Step = std::variant<Work, Post, Wait>;

struct Script {
  std::uint32_t ranks = 0;
  Workload workload;
  std::vector<bool> blocking;  // by call: the program waits for it at once
  std::vector<Step> steps;
  std::uint32_t requests = 0;  // request numbers are below this
  std::uint32_t repeat = 1;
  std::vector<double> work_of_rank = {};  // factor for each rank's Work; empty: 1
};

// Checks every field; errors name the field and the allowed values. docs/using/prediction.md explains the format. Calls
// have no algorithms yet.
[[nodiscard]] Result<Script> parse_script(const std::string& text, const std::string& file_name);
[[nodiscard]] Result<Script> read_script(const std::string& path);

struct ScriptOptions {
  std::uint64_t seed = 1;
  double work_factor = 1;           // factor for all work
  std::uint64_t test_every_ns = 0;  // interval of MPI_Test during work; 0: never
  std::uint64_t most_events = 0;    // limit of a run
};

// Totals over all repetitions.
struct ScriptTimes {
  std::uint64_t total_ns = 0;       // to the end of the last rank
  std::uint64_t work_alone_ns = 0;  // the work of the slowest rank without collectives
  double in_mpi_ns = 0;             // mean of the ranks
};

[[nodiscard]] Result<ScriptTimes> run_script(model::Machine& machine, Side& side, const Script& script,
                                             const ScriptOptions& options);

}  // namespace outrigger::sim::timing
