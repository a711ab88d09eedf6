// Checks if a cluster has room for a job.
#pragma once

#include "base/result.hpp"
#include "sim/model/cluster.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::timing {

// Error: names what does not fit, and the limit.
[[nodiscard]] Status check_shape(const model::Cluster& cluster, const JobShape& shape);

}  // namespace outrigger::sim::timing
