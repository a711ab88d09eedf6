// Whether a cluster has room for a job.
#pragma once

#include "base/result.hpp"
#include "sim/model/cluster.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::timing {

// An error names what does not fit, and how much would.
[[nodiscard]] Status check_shape(const model::Cluster& cluster, const JobShape& shape);

}  // namespace outrigger::sim::timing
