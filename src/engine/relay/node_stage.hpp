// The stage between nodes of the hierarchical algorithms: a block goes from its source's node to the others', to each
// once. Small ones go down a binomial tree of nodes; large ones are scattered over the nodes and gathered again.
//
// A node's service processes with members share the work: one of them, the *server*, gets a block (or a segment of one)
// for its node, by turns of the blocks and segments. Their ranks have it from each other.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/core/operation.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

// How many segments the source's block comes in; 1: it goes down the tree. At least so many for each node but the
// source's as the most service processes that a node has, and where the block is `alone` under way as many as
// rounds_for() says, as long as each has `split_bytes`. The same at all ranks that have room for the block.
[[nodiscard]] std::uint32_t segments_between_nodes(const Operation& operation, const LocalRank& rank, GroupRank source,
                                                   bool alone);

// Whom to ask: the server of this node; then, for a whole block, those of the tree's nodes from the parent up, and for
// a segment the one of its home node. Last the source.
[[nodiscard]] std::optional<SpId> ask_between_nodes(const Membership& group, const Segment& segment, std::uint32_t hop);

// Is this service process its node's server of the segment?
[[nodiscard]] bool serves(const Membership& group, const Segment& segment);

}  // namespace outrigger::engine
