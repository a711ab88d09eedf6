// Steps of reductions: reduce operands, end a slice of the result, release a contribution. A rank needs all pairs,
// which are contributions. Marks and places belong to slices.
#pragma once

#include <span>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

// Awaited: reduces the operands in order into `into`, which may be the first operand. `names`: empty, or one per
// operand that its source may have sent eagerly.
[[nodiscard]] Reduce reduce(const Operation& operation, const LocalRank& rank, std::span<const Block> operands,
                            const Block& into, std::span<const BlockId> names = {});

// Short slices are reduced whole and sent eagerly. Same result at all ranks.
[[nodiscard]] bool is_short_slice(const Context& context, std::uint64_t bytes);

// Contributions to a slice of this size are sent before they are requested, if sends_short_slices(). Longer ones only
// if no service process owns several slices: they would come to it one after the other, while the links to others are
// idle. Same result at all ranks.
[[nodiscard]] bool sends_contributions(const Operation& operation, const PostedOperation& posted,
                                       std::uint64_t slice_bytes);

// Contributions to short slices are sent before they are requested, unless a service process reduces those of its ranks
// first. Same result at all ranks.
[[nodiscard]] bool sends_short_slices(const Operation& operation, const Reduction& reduction);

// Marks the owner's slice as placed in the rank's buffer, or records its failure. Order: bytes placed, this call, and
// after the last slice end_contributions().
void end_slice(Operation& operation, LocalRank& rank, GroupRank owner, const fabric::MoveOutcome& outcome);
// Releases all sources that were taken.
void end_contributions(Operation& operation, LocalRank& rank, const fabric::MoveOutcome& outcome);

}  // namespace outrigger::engine
