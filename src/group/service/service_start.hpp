// Starts the service process of a group, if the environment names cores for it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

// OUTRIGGER_SERVICE_CPUS; empty: none, or OUTRIGGER_SERVICES is 0.
[[nodiscard]] std::string kept_cpus();

// On these cores. `fd`: of the area, for members with these process ids. Returns when it runs.
[[nodiscard]] Status start_service(const ServiceArea& area, int fd, const std::string& cpus,
                                   const std::vector<pid_t>& pids);
// Ends the service process of a group that is not made.
void stop_service(const ServiceArea& area);

}  // namespace outrigger::group
