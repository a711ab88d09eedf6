// Ways to run a program (script.hpp): with its own MPI, by blocking or nonblocking calls, with tests or threads, or
// with service processes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sim/model/cluster.hpp"
#include "sim/timing/script.hpp"

namespace outrigger::sim::timing {

enum class Lane : std::uint8_t {
  blocking,     // natively, with a wait behind each post
  nonblocking,  // natively
  testing,      // natively, with MPI_Test during the work
  threads,      // natively, with progress threads on as many cores as there are service processes
  offloaded,
};
inline constexpr std::array<std::string_view, 5> kLaneNames{"blocking", "nonblocking", "testing", "threads",
                                                            "offloaded"};
[[nodiscard]] std::optional<Lane> lane_named(std::string_view name);

struct LaneOptions {
  JobShape shape;
  std::map<std::string, std::string> native;      // algorithm by collective; others use the defaults
  std::map<std::string, std::string> algorithms;  // the same for service processes
  bool offload_blocking = false;                  // blocking calls, too
  double service_work_factor = 1;                 // work takes longer if services or threads have cores of their own
  std::uint64_t test_every_ns = 100'000;
  std::uint64_t seed = 1;
};

// Uses a new machine. Error: names the option that is not allowed.
[[nodiscard]] Result<ScriptTimes> run_lane(const model::Cluster& cluster, const Script& script, Lane lane,
                                           const LaneOptions& options);

}  // namespace outrigger::sim::timing
