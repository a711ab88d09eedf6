// Common part of the sliced reductions. A rank waits for all contributions, gets each slice of the result that it
// needs, in pieces, and then releases the contributions. Slices are cut when the rank posts (core/slices.hpp). The
// algorithm names other places from which a slice can be read.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/relay/replicas.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {

// Puts a piece of the result into the rank's buffer: from a rank that has it, or reduced from all contributions.
[[nodiscard]] Task reduce_piece(Operation& operation, SegmentedBlock& slice, std::uint32_t index, Route route);

// `eager`: whether contributions to short slices may be sent to the slices' owners before they are requested.
Task reduce_slices(Operation& operation, LocalRank& rank, Route route, SegmentedBlock::Getter getter = reduce_piece,
                   EagerSends eager = EagerSends::no);

// The source's contribution to a piece; the contributions of the first `count` ranks, in order.
[[nodiscard]] Block contribution(const LocalRank& rank, GroupRank source, const Segment& piece);
[[nodiscard]] std::vector<Block> contributions(const LocalRank& rank, std::size_t count, const Segment& piece);

}  // namespace outrigger::engine
