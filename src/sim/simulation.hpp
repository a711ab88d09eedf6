// Runs one random job on real engines in virtual time and checks the invariants after every step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/registry.hpp"
#include "fabric/sim/options.hpp"
#include "protocol/collective.hpp"

namespace outrigger::sim {

struct SimulationOptions {
  std::uint64_t seed = 1;
  Algorithm algorithm = Algorithm::ring_pull;
  fabric::sim::FaultOptions faults;
  const engine::Registry* registry = nullptr;  // nullptr: the built-in algorithms
  // Every block must be marked when its rank completes. Off in a test that shows the effect of a missing mark.
  bool check_marks_at_completion = true;
  bool trace = false;  // readable lines on stdout
};

struct SimulationResult {
  std::optional<std::string> broken;  // the violated invariant; nullopt if all hold
  std::uint64_t operations = 0;       // completions seen by ranks
  std::uint64_t messages = 0;
  std::uint64_t moved_chunks = 0;
  std::uint64_t blocks_eager = 0;  // sent before they were requested
  std::uint64_t crashes = 0;
  std::uint64_t losses = 0;  // of ranks
  std::uint64_t replayed_posts = 0;
  std::uint64_t virtual_ns = 0;
};

[[nodiscard]] SimulationResult simulate(const SimulationOptions& options);

}  // namespace outrigger::sim
