// The two shapes of a broadcast between nodes or service processes.
//
// A small block goes down a binomial tree. Places are numbered round-robin from the root's; a parent's number is the
// child's with the lowest bit cleared.
//
//     0 ──▶ 1
//     │───▶ 2 ──▶ 3
//     └───▶ 4 ...
//
// A large block is scattered over the nodes other than its source's and gathered again, in rounds. A round has one
// segment for each of these nodes, round-robin from the node after the source's. A node is the *home* of its segments:
// it reads them at the source, and the other nodes read them there.
//
//     segments A, B, C of one round, 4 nodes
//     0 ──A──▶ 1    B, C from 2, 3
//     │──B──▶ 2    A, C from 1, 3
//     └──C──▶ 3    A, B from 1, 2
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/core/group.hpp"
#include "engine/engine_config.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

// The place `levels` above the own one, of `count`. nullopt at the root's place.
[[nodiscard]] constexpr std::optional<std::size_t> binomial_ancestor(std::size_t own, std::size_t root,
                                                                     std::size_t count, std::uint32_t levels) {
  std::size_t number = (own + count - root) % count;
  for (std::uint32_t up = 0; up < levels && number != 0; ++up) number &= number - 1;
  if (number == 0) return std::nullopt;
  return (number + root) % count;
}

// One for each node with members other than the source's.
[[nodiscard]] std::uint32_t segments_a_round(const Membership& group);

// The home node of the segment, as an index of Membership::services_by_node(). Needs at least two nodes.
[[nodiscard]] std::size_t home_node(const Membership& group, const Segment& segment);

// This node's segment in a round; it may be beyond the last one.
[[nodiscard]] std::uint32_t own_segment(const Membership& group, GroupRank source, std::uint32_t round);

// Number of rounds in which a block with shares of this size is scattered. A node passes on the segments of a round
// while the next ones arrive, but segments have at least `segment_bytes`.
[[nodiscard]] std::uint64_t rounds_for(const EngineLimits& limits, std::uint64_t share_bytes, std::uint64_t shares);

}  // namespace outrigger::engine
