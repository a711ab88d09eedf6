// Algorithms with planted bugs, to show that the simulation finds such bugs. Registered only by tests.
#pragma once

#include "engine/registry.hpp"

namespace outrigger::sim {

engine::Task planted_early_release(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_lost_mark(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_leaked_slot(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_idle_until_all(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_sibling_not_asked(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_let_go_early(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_order_of_arrival(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_contribution_released_early(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_prefix_offered_early(engine::Operation& operation, engine::LocalRank& rank);
engine::Task planted_barrier_of_a_branch(engine::Operation& operation, engine::LocalRank& rank);

}  // namespace outrigger::sim
