// Algorithms that are wrong on purpose, to show that the simulation finds such bugs. Registered by tests only.
#pragma once

#include "engine/registry.hpp"

namespace outrigger::sim {

engine::Task planted_early_release(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_lost_mark(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_leaked_slot(engine::Operation& operation, engine::LocalRank& rank);

}  // namespace outrigger::sim
