// The algorithm that a job takes without rules of its user.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "sim/model/cluster.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::timing {

// `members`: world ranks of the communicator. `bytes`: of a block; for broadcasts and reductions of the whole buffer.
[[nodiscard]] Algorithm chosen_algorithm(const Places& places, const std::vector<WorldRank>& members,
                                         model::WireKind kind, Collective collective, std::uint64_t bytes);

}  // namespace outrigger::sim::timing
