// What an engine is told when it is made.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/ids.hpp"

namespace outrigger::engine {

class Registry;

// Every queue, window and table of the engine, by name. What happens at a limit stands beside it.
struct EngineLimits {
  // Moves in flight per service process. At the limit a block waits in ring order; only moves with both ends posted
  // hold a slot, so a full window always drains.
  std::uint32_t window_moves = 16;
  // Operations announced to one peer service process per group and not yet released by it. At the limit further
  // announcements of that group to that peer wait here, in sequence order; a sequence not above one already announced
  // goes at once, so that a rank that is ahead never holds up one that is behind. At least one.
  std::uint32_t announce_credits = 64;
  // Peers' announcements without any bytes that wait, per group, for a local rank to post. They need no credit; beyond
  // the limit they are dropped, and only the named error for ranks that disagree is lost. Also blocks asked for, per
  // operation whose members are not known yet: beyond the limit the answer is "not here", and who asked is forgotten.
  std::uint32_t waiting_announcements = 65536;
  // Freed groups remembered, so that a restarted peer's late question about one is answered. Beyond it the oldest is
  // forgotten, and such a question waits for ever.
  std::uint32_t forgotten_groups = 4096;
  // A large block is scattered, a share to each node but its source's, where shares have at least so many bytes. So has
  // each rank's slice of a reduction. The same in all service processes.
  std::uint64_t split_bytes = std::uint64_t{16} << 10;
  // Such a share, or slice, is cut into segments of about so many bytes: a node passes on what it has while the rest
  // comes. The same in all service processes.
  std::uint64_t segment_bytes = std::uint64_t{64} << 10;
  // Slices of an allreduce up to so long are sent before they are asked for, and contributions to them. Longer ones
  // gain nothing where processors copy, as their bytes do not travel with a message. The same in all service processes.
  std::uint64_t short_slice_bytes = 4096;
  // Largest message to a peer, in bytes. Longer announcements (v-forms to a peer that serves many ranks) are split.
  std::uint32_t message_bytes = 32768;
};

struct EngineConfig {
  SpId self;
  Epoch epoch{1};
  std::vector<SpId> sp_of_rank;  // indexed by world rank: the service process that serves it
  // Indexed by service process: its node, from 0. Those of one node reach all memory of its ranks without the network.
  // Empty: each has a node of its own.
  std::vector<std::uint32_t> node_of_sp;
  EngineLimits limits;
  const Registry* registry = nullptr;  // null: the built-in algorithms
};

}  // namespace outrigger::engine
