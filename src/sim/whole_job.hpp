// Counts messages, moves and bytes of a whole job for one allgather or broadcast: the engines of all its service
// processes are real. Blocks have sizes and no bytes, nothing takes time, and all ranks have posted before the first
// byte moves.
//
// In these collectives service processes pass on blocks, so no single one can stand for all as in scale.hpp.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "protocol/collective.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim {

struct WholeJobOptions {
  std::uint32_t nodes = 16;
  std::uint32_t ranks_per_node = 8;
  std::uint32_t services = 1;                      // per node; divides ranks_per_node
  Collective collective = Collective::iallgather;  // or iallgatherv, ibcast
  Algorithm algorithm = Algorithm::flat;
  Mapping mapping = Mapping::contiguous;
  std::uint64_t block_bytes = 4096;
  std::uint32_t root = 0;
};

// Sums over all service processes.
struct WholeJobResult {
  std::uint32_t ranks = 0;
  std::uint32_t services = 0;
  std::array<engine::EngineCounters::Messages, engine::EngineCounters::kMessageKinds> sent{};
  std::uint64_t moves = 0;
  std::uint64_t reconsidered_segments = 0;     // waits for a replica that were looked at again
  std::uint64_t wire_moves = 0;                // between nodes
  std::uint64_t wire_bytes = 0;                // of wire_moves, without messages
  std::uint64_t most_bytes_from_a_node = 0;    // of wire_bytes
  std::uint64_t bytes_from_the_root_node = 0;  // of wire_bytes
};

// Error: names the option that is not allowed.
[[nodiscard]] Result<WholeJobResult> count_whole_job(const WholeJobOptions& options);

}  // namespace outrigger::sim
