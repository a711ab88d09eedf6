// A program in virtual time: each rank goes through the same list of steps, again and again, at its own pace. It works,
// posts collectives, waits for them. Nobody waits at the end of a repetition: ranks that are late are so where they
// meet.
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
  std::vector<bool> blocking;  // by call: whether the program waits for it at once
  std::vector<Step> steps;
  std::uint32_t requests = 0;  // they have numbers below this
  std::uint32_t repeat = 1;
  std::vector<double> work_of_rank = {};  // parts of each Work that a rank takes; empty: 1
};

// Checked field by field; every error names the field and what is allowed. docs/using/prediction.md explains the
// format. Calls have no algorithms yet.
[[nodiscard]] Result<Script> parse_script(const std::string& text, const std::string& file_name);
[[nodiscard]] Result<Script> read_script(const std::string& path);

struct ScriptOptions {
  std::uint64_t seed = 1;
  double work_factor = 1;           // all work takes so many times longer
  std::uint64_t test_every_ns = 0;  // ranks call MPI_Test so often while they work; 0: never
  std::uint64_t most_events = 0;    // a run of more is given up
};

// Of all repetitions together.
struct ScriptTimes {
  std::uint64_t total_ns = 0;       // to the end of the last rank
  std::uint64_t work_alone_ns = 0;  // as long as the work of the slowest rank takes without any collective
  double in_mpi_ns = 0;             // the mean of the ranks
};

[[nodiscard]] Result<ScriptTimes> run_script(model::Machine& machine, Side& side, const Script& script,
                                             const ScriptOptions& options);

}  // namespace outrigger::sim::timing
