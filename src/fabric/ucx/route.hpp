// How data goes between nodes, in words for people.
#pragma once

#include <string>

#include "fabric/ucx/worker.hpp"
#include "protocol/shared/wire_route.hpp"

namespace outrigger::fabric::ucx {

[[nodiscard]] WireRoute route_over(const Lanes& lanes);

// As it would go to another node like this one: a child process opens a connection to itself and looks; over TCP
// without the device. For processes with one thread.
[[nodiscard]] Result<WireRoute> probe_route(const std::string& transports);

}  // namespace outrigger::fabric::ucx
