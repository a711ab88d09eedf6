// The network address at which other nodes reach this process.
#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "base/result.hpp"

namespace outrigger::group {

struct Address {
  sockaddr_storage place{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&place); }
};

// Users of PyTorch know it from gloo.
inline constexpr const char* kDeviceVariable = "GLOO_SOCKET_IFNAME";

// The address of the device that kDeviceVariable names; else of the route to MASTER_ADDR, where a job by torchrun
// has its store; else of the route to other networks, or of any device. Errors: there is no such device.
[[nodiscard]] Result<Address> own_address(std::uint16_t port);

}  // namespace outrigger::group
