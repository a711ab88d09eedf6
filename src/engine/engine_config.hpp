// Configuration of an engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "protocol/ids.hpp"

namespace outrigger::engine {

class Registry;

// Moves in flight of a service process where those of a node have one to each node together. With fewer, the moves of
// all nodes meet at the same links: 32 nodes with a service process each exchange blocks of 1 MiB a third more slowly.
[[nodiscard]] constexpr std::uint32_t window_moves_for(std::uint32_t nodes, std::uint32_t services_of_node) {
  constexpr std::uint32_t kLeast = 16;
  constexpr std::uint32_t kMost = 64;
  return std::clamp(nodes / std::max(services_of_node, 1U), kLeast, kMost);
}

// Limits of all queues, windows and tables of the engine, and what happens there.
struct EngineLimits {
  // Moves in flight per service process. At the limit a block waits, first come first served. Only moves with both ends
  // posted hold a slot, so a full window always drains.
  std::uint32_t window_moves = window_moves_for(1, 1);
  // The same for moves within the node; 0: these share the window with the others. Service processes on a DPU leave
  // such moves to ranks of the host, which may compute: moves across the network go on meanwhile.
  std::uint32_t near_window_moves = 0;
  std::uint64_t near_window_bytes = 0;  // shorter moves within the node share the window as well: they do not wait
  // Operations per group that are announced to one peer and not released by it; at least one. At the limit
  // announcements of that group to that peer wait, in sequence order. A sequence at or below an announced one is sent
  // at once, so a rank that is ahead never blocks one that is behind.
  std::uint32_t announce_credits = 64;
  // Announcements of peers without bytes that wait per group for a local post. They need no credit; more are dropped,
  // which only loses the error for mismatched calls. Also limits requested blocks per operation with unknown members:
  // beyond the limit the answer is "not here", and the request is forgotten.
  std::uint32_t waiting_announcements = 65536;
  // Freed groups that are remembered for a restarted peer's late question. Beyond the limit the oldest is forgotten and
  // such a question waits for ever.
  std::uint32_t forgotten_groups = 4096;
  // Large blocks are scattered, one share to each node but the source's, if shares have at least this size. The same
  // limit holds for each rank's slice of a reduction. Must be the same in all service processes.
  std::uint64_t split_bytes = std::uint64_t{16} << 10;
  // Segment size of a share or slice: a node passes on a segment while the next one arrives. Must be the same in all
  // service processes.
  std::uint64_t segment_bytes = std::uint64_t{64} << 10;
  // Allreduce slices up to this size, and contributions to them, are sent before they are requested, where processors
  // copy. Must be the same in all service processes.
  std::uint64_t short_slice_bytes = std::uint64_t{128} << 10;
  // Up to this size contributions are sent so whatever the number of slices: they travel with a message. Must be the
  // same in all service processes.
  std::uint64_t shortest_slice_bytes = 4096;
  // Largest message to a peer. Longer announcements (v-forms to a peer with many ranks) are split.
  std::uint32_t message_bytes = 32768;
};

struct EngineConfig {
  SpId self;
  Epoch epoch{1};
  std::vector<SpId> sp_of_rank;  // by world rank: the service process that serves it
  // By service process: its node, from 0. Service processes of a node reach its ranks' memory without the network.
  // Empty: one node per service process.
  std::vector<std::uint32_t> node_of_sp;
  EngineLimits limits;
  const Registry* registry = nullptr;  // nullptr: the built-in algorithms
};

}  // namespace outrigger::engine
