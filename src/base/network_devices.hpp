#pragma once

#include <string>
#include <vector>

namespace outrigger {

// Sorted names of the network devices that are up and have a link and an address, without the loopback device.
[[nodiscard]] std::vector<std::string> active_network_devices();

// False: this machine has no network device that moves memory by itself.
[[nodiscard]] bool has_rdma_devices();

}  // namespace outrigger
