// The stage between nodes of the hierarchical algorithms: a block goes from its source's node to the others', to each
// once. Small ones go down a binomial tree of nodes; large ones are scattered over the nodes and gathered again.
//
// A node's service processes with members share the work: one of them, the server, gets a block (or a part of one) for
// its node, by turns of the blocks and parts. Their ranks have it from each other.
//
//     tree, 5 nodes, numbered from the source's            parts of a large block, 4 nodes
//     (the parent has the lowest bit cleared)
//     source's 0 ──▶ 1                                     0 ──A──▶ 1    B, C from 2, 3
//       │└─────▶ 2 ──▶ 3                                   │──B──▶ 2    A, C from 1, 3
//       └──────▶ 4                                         └──C──▶ 3    A, B from 1, 2
#pragma once

#include <cstdint>
#include <optional>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

// The node that reads a part of a large block at its source, and where the others read it: each but the source's by
// turns, from the one after it. At least two nodes.
[[nodiscard]] std::size_t home_of_part(const Operation& operation, GroupRank source, std::uint32_t part);

// Into how many parts each of `nodes` shares of a large block, of `bytes` each, is cut: of `part_bytes` or more, so
// that what has come is passed on while the rest comes.
[[nodiscard]] std::uint64_t cuts(const Operation& operation, std::uint64_t bytes, std::uint64_t nodes);

// How many parts the source's block comes in; 1: it goes down the tree. At least so many for each node but the source's
// as the most service processes that a node has, and where the block is `alone` under way as many as cuts() says, as
// long as each part has `split_bytes`. The same at all ranks that have room for the block.
[[nodiscard]] std::uint32_t parts_between_nodes(const Operation& operation, const LocalRank& rank, GroupRank source,
                                                bool alone);

// A Copies::Route. Whom to ask: the server of this node; then, of a whole block, those of the tree's nodes from the
// parent up, and of a part the one of its home node. Last the source.
[[nodiscard]] std::optional<SpId> ask_between_nodes(const Operation& operation, GroupRank source, std::uint32_t piece,
                                                    std::uint32_t hop);

// A Parts::ReadsHere: the server of this node for the part.
[[nodiscard]] bool reads_at_source(const Operation& operation, GroupRank source, std::uint32_t piece);

}  // namespace outrigger::engine
