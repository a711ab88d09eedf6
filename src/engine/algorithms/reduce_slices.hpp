// What the reductions have in common that go by slices: a rank waits for all contributions, gets each slice of the
// result that it needs, in pieces, and then lets the contributions go. Which slices are whose is cut when the rank
// posts (core/slices.hpp); where else a slice is to be had than out of the contributions is the algorithm's.
#pragma once

#include "engine/core/operation.hpp"
#include "engine/relay/fetch.hpp"

namespace outrigger::engine {

Task reduce_slices(Operation& operation, LocalRank& rank, Route route);

}  // namespace outrigger::engine
