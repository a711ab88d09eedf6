// One pattern on one cluster: how long it takes the ranks' own MPI and service processes, and how much of it
// computation hides. Unless something else is asked for by equal work: both compute for as long as the natives' pure
// latency, as bench/mpi/orbench.c has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "sim/model/cluster.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::timing {

// A collective and the bytes of a block, as in "ialltoall:64KiB"; of ibcast and iallreduce the whole buffer's.
struct Pattern {
  Collective collective = Collective::ialltoall;
  std::uint64_t bytes = 0;
};
[[nodiscard]] Result<Pattern> parse_pattern(std::string_view text);
[[nodiscard]] std::string text_of(const Pattern& pattern);

// For how long ranks compute beside the collective.
struct WorkRule {
  enum class Kind : std::uint8_t {
    native_pure,  // both sides as long as the natives' pure latency
    own_pure,     // each side as long as its own: what the OSU benchmarks do
    fixed,        // both `fixed_ns`
  };
  Kind kind = Kind::native_pure;
  std::uint64_t fixed_ns = 0;
};
// "native", "own", or a time as in "2 ms", up to an hour.
[[nodiscard]] Result<WorkRule> parse_work_rule(std::string_view text);

struct ExperimentOptions {
  Pattern pattern;
  JobShape shape;
  std::string native = "default";     // or the name of one of the collective's baselines
  std::string offloaded = "default";  // or one of its algorithms
  WorkRule work;
  bool native_threads = false;  // natives' progress threads have the service processes' cores
  std::uint32_t rounds = 3;
  std::uint64_t seed = 1;
};

// Medians of the rounds.
struct SideTimes {
  std::string algorithm;
  std::uint64_t pure_ns = 0;     // the collective alone
  std::uint64_t work_ns = 0;     // what each rank computes
  std::uint64_t total_ns = 0;    // with the work
  std::uint64_t exposed_ns = 0;  // the total less the work alone
  std::uint64_t in_mpi_ns = 0;   // a rank's time in MPI calls with the work, the mean
};

struct ExperimentResult {
  SideTimes native;
  SideTimes offloaded;
  std::uint64_t native_messages = 0;  // of all rounds
  std::uint64_t offloaded_moves = 0;
};

// An error names the option that cannot be.
[[nodiscard]] Result<ExperimentResult> run_experiment(const model::Cluster& cluster, const ExperimentOptions& options);

}  // namespace outrigger::sim::timing
