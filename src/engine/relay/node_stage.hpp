// The stage between nodes of the hierarchical algorithms: a block goes from its source's node to each other node once.
// Small ones go down a binomial tree of nodes; large ones are scattered over the nodes and gathered again.
//
// A node's service processes with members share the work. One of them, the *server*, gets a block (or segment) for its
// node; they take blocks and segments round-robin. Their ranks read it from each other.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/core/operation.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

// Number of segments of the source's block; 1: it goes down the tree. At least one per node other than the source's and
// per service process of the largest node; more as in rounds_for() if the block is `alone` in flight. Segments have at
// least `split_bytes`. Same result at all ranks with room for the block.
[[nodiscard]] std::uint32_t segments_between_nodes(const Operation& operation, const LocalRank& rank, GroupRank source,
                                                   bool alone);

// The service process to ask: first the server of this node. For a whole block, then those of the tree's nodes from the
// parent up; for a segment, that of the home node. Last the source.
[[nodiscard]] std::optional<SpId> ask_between_nodes(const Membership& group, const Segment& segment, std::uint32_t hop);

// True if this service process is its node's server of the segment.
[[nodiscard]] bool serves(const Membership& group, const Segment& segment);

}  // namespace outrigger::engine
