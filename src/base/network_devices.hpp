// The network devices of this machine, but for the one that reaches only itself.
#pragma once

#include <string>
#include <vector>

namespace outrigger {

// Those that are up, have a link and an address, by their names, in order, each once. Not one that has lost its cable.
[[nodiscard]] std::vector<std::string> active_network_devices();

}  // namespace outrigger
