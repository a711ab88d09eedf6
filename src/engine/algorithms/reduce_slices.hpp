// What the reductions have in common that go by slices: a rank waits for all contributions, gets each slice of the
// result that it needs, in pieces, and then lets the contributions go. Which slices are whose is cut when the rank
// posts (core/slices.hpp); where else a slice is to be had than out of the contributions is the algorithm's.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/relay/replicas.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {

// A piece of the result, into the rank's buffer: from a rank that has it, or out of all contributions.
[[nodiscard]] Task reduce_piece(Operation& operation, SegmentedBlock& slice, std::uint32_t index, Route route);

// `eager`: whether contributions to short slices may be sent to the slices' owners before these ask.
Task reduce_slices(Operation& operation, LocalRank& rank, Route route, SegmentedBlock::Getter getter = reduce_piece,
                   EagerSends eager = EagerSends::no);

// What the source contributes to a piece; the same of the first `count` ranks, in their order.
[[nodiscard]] Block contribution(const LocalRank& rank, GroupRank source, const Segment& piece);
[[nodiscard]] std::vector<Block> contributions(const LocalRank& rank, std::size_t count, const Segment& piece);

}  // namespace outrigger::engine
