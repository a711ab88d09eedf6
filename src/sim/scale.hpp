// What one service process of a large job sends, receives, moves and holds for one all-to-all, counted.
//
// The engine of that one service process is real and serves its ranks fully. The rest of the job is symbolic: a few
// rules that answer as peers would (announce, pull or push, release), with no state per pair of ranks, so that 100,000
// ranks fit on a laptop.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "protocol/collective.hpp"

namespace outrigger::sim {

// When the local ranks post, seen against the peers' announcements.
enum class Arrival : std::uint8_t {
  spread,  // one by one while the announcements arrive, in an order that is not the ring's
  early,   // before any announcement
  late,    // after all of them
};

struct ScaleOptions {
  std::uint32_t nodes = 16;
  std::uint32_t ranks_per_node = 32;
  std::uint32_t services = 1;  // per node; divides ranks_per_node
  Algorithm algorithm = Algorithm::ring_pull;
  bool v_form = false;               // a count and an offset for every pair
  std::uint64_t block_bytes = 4096;  // every block's bytes; in the v-form their mean
  Arrival arrival = Arrival::spread;
};

// All for one operation of one service process. Bytes are of memory that the engine has allocated, by the allocator's
// own sizes, what the posts and the group brought with them included; -1 where the program counts no memory.
struct ScaleResult {
  std::uint32_t ranks = 0;        // of the job
  std::uint32_t local_ranks = 0;  // of the service process
  std::uint32_t peers = 0;        // other service processes
  engine::EngineCounters counters;
  std::int64_t group_bytes = -1;      // held when the operation is over: the job, the group, pools
  std::int64_t peak_bytes = -1;       // at most, at any time
  std::int64_t most_allocations = 0;  // live at a time

  [[nodiscard]] std::uint64_t pairs() const { return std::uint64_t{ranks} * local_ranks; }
  // What the operation itself holds at most, for each pair of a local rank and a rank of the group.
  [[nodiscard]] double operation_bytes_per_pair() const {
    return static_cast<double>(peak_bytes - group_bytes) / static_cast<double>(pairs());
  }
};

// An error names the option that cannot be.
[[nodiscard]] Result<ScaleResult> count_scale(const ScaleOptions& options);

}  // namespace outrigger::sim
