// Common part of scan and exscan: each rank's result is the result of the rank before it plus one contribution.
#pragma once

#include "engine/core/operation.hpp"

namespace outrigger::engine {

Task prefix_chain(Operation& operation, LocalRank& rank);

}  // namespace outrigger::engine
