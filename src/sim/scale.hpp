// Counts messages, moves and memory of one service process of a large job during one all-to-all.
//
// Its engine is real and serves its ranks fully. The rest of the job is symbolic: simple rules answer as peers would
// (announce, pull or push, release) without state per pair of ranks, so that 100,000 ranks fit on a laptop.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "protocol/collective.hpp"

namespace outrigger::sim {

// When the local ranks post, relative to the peers' announcements.
enum class Arrival : std::uint8_t {
  spread,  // one by one while announcements arrive, in another order than the ring's
  early,   // before any announcement
  late,    // after all of them
};

struct ScaleOptions {
  std::uint32_t nodes = 16;
  std::uint32_t ranks_per_node = 32;
  std::uint32_t services = 1;  // per node; divides ranks_per_node
  Algorithm algorithm = Algorithm::ring_pull;
  bool v_form = false;               // a count and an offset for every pair
  std::uint64_t block_bytes = 4096;  // of every block; in the v-form the mean
  Arrival arrival = Arrival::spread;
};

// Figures of one service process for one operation. Bytes are memory allocated by the engine, in the allocator's own
// sizes, including the posts and the group; -1 if the program does not count memory.
struct ScaleResult {
  std::uint32_t ranks = 0;        // of the job
  std::uint32_t local_ranks = 0;  // of the service process
  std::uint32_t peers = 0;        // other service processes
  engine::EngineCounters counters;
  std::int64_t group_bytes = -1;      // held after the operation: the job, the group, pools
  std::int64_t peak_bytes = -1;       // largest at any time
  std::int64_t most_allocations = 0;  // at the same time

  [[nodiscard]] std::uint64_t pairs() const { return std::uint64_t{ranks} * local_ranks; }
  // The operation's own peak memory per pair of a local rank and a rank of the group.
  [[nodiscard]] double operation_bytes_per_pair() const {
    return static_cast<double>(peak_bytes - group_bytes) / static_cast<double>(pairs());
  }
};

// Error: names the option that is not allowed.
[[nodiscard]] Result<ScaleResult> count_scale(const ScaleOptions& options);

}  // namespace outrigger::sim
