// Starts the service process of a group, if the environment names cores for it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "group/layout.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

// OUTRIGGER_SERVICE_CPUS; empty: none, or OUTRIGGER_SERVICES is 0.
[[nodiscard]] std::string kept_cpus();

// `area_fd` and `cpus` are of this node, `pids` of its members, in their order.
struct ServiceStart {
  int area_fd = -1;
  std::string cpus;
  std::vector<pid_t> pids;
  // To the service processes of the other nodes, in the order of nodes.
  std::vector<int> connections{};
};
// For the node of the layout's rank. Returns when it runs.
[[nodiscard]] Status start_service(const ServiceArea& area, const Layout& layout, const ServiceStart& start);
// Ends the service process of a group that is not made.
void stop_service(const ServiceArea& area);

}  // namespace outrigger::group
