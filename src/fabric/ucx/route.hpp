// The data route between nodes, as text.
#pragma once

#include <string>

#include "fabric/ucx/worker.hpp"
#include "protocol/shared/wire_route.hpp"

namespace outrigger::fabric::ucx {

[[nodiscard]] WireRoute route_over(const Lanes& lanes);

// The route to another node like this one. A child process opens a connection to itself and inspects it; for TCP the
// device is left out. Only for single-threaded processes.
[[nodiscard]] Result<WireRoute> probe_route(const std::string& transports);

}  // namespace outrigger::fabric::ucx
