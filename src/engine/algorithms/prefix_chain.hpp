// What scan and exscan have in common: each rank's result is the one of the rank before it and one contribution more.
#pragma once

#include "engine/core/operation.hpp"

namespace outrigger::engine {

Task prefix_chain(Operation& operation, LocalRank& rank);

}  // namespace outrigger::engine
