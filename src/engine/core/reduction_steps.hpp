// What algorithms do with reductions: operands are reduced, a slice of the result is in its place, a contribution
// is not needed any more. Pairs are contributions, of which each rank needs all; marks and places are the slices'.
#pragma once

#include <span>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

// Awaited: the operands reduced in their order, by the rank's reduction; `into` may be the first. `names`: none, or one
// for each operand, by which its source may have sent some of it eagerly.
[[nodiscard]] Reduce reduce(const Operation& operation, const LocalRank& rank, std::span<const Block> operands,
                            const Block& into, std::span<const BlockId> names = {});

// So short that it is reduced as a whole, and sent eagerly. The same for all.
[[nodiscard]] bool is_short_slice(const Context& context, std::uint64_t bytes);

// The owner's slice of the result is in the rank's buffer, which is marked, or cannot be had. In the order of what is
// done for a block: bytes placed, this, and with all slices there end_contribution() for all.
void end_slice(Operation& operation, LocalRank& rank, GroupRank owner, const fabric::MoveOutcome& outcome);
// The source is released.
void end_contribution(Operation& operation, LocalRank& rank, GroupRank source, const fabric::MoveOutcome& outcome);

}  // namespace outrigger::engine
