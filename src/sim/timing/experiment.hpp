// One pattern on one cluster: times of the ranks' own MPI and of service processes, and the share that computation
// hides. The default is equal work: both sides compute for the native pure latency, as in bench/mpi/orbench.c.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "sim/model/cluster.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::timing {

// A collective and the bytes of a block, as in "ialltoall:64KiB"; for ibcast and iallreduce of the whole buffer.
struct Pattern {
  Collective collective = Collective::ialltoall;
  std::uint64_t bytes = 0;
};
[[nodiscard]] Result<Pattern> parse_pattern(std::string_view text);
[[nodiscard]] std::string text_of(const Pattern& pattern);

// How long ranks compute beside the collective.
struct WorkRule {
  enum class Kind : std::uint8_t {
    native_pure,  // both sides for the native pure latency
    own_pure,     // each side for its own pure latency, as in the OSU benchmarks
    fixed,        // both for `fixed_ns`
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
  bool native_threads = false;  // native progress threads use the service processes' cores
  std::uint32_t rounds = 3;
  std::uint64_t seed = 1;
};

// Medians over the rounds.
struct SideTimes {
  std::string algorithm;
  std::uint64_t pure_ns = 0;     // the collective alone
  std::uint64_t work_ns = 0;     // computation of each rank
  std::uint64_t total_ns = 0;    // with the work
  std::uint64_t exposed_ns = 0;  // total_ns minus the time of the work alone
  std::uint64_t in_mpi_ns = 0;   // a rank's mean time in MPI calls during total_ns
};

struct ExperimentResult {
  SideTimes native;
  SideTimes offloaded;
  std::uint64_t native_messages = 0;  // in all rounds
  std::uint64_t offloaded_moves = 0;
};

// Error: names the option that is not allowed.
[[nodiscard]] Result<ExperimentResult> run_experiment(const model::Cluster& cluster, const ExperimentOptions& options);

}  // namespace outrigger::sim::timing
