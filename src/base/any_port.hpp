// A TCP port that the system chooses, at all addresses of this machine.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace outrigger {

struct ListeningPort {
  UniqueFd socket;  // nonblocking
  std::uint16_t port = 0;
};

// Listens by IPv6 and IPv4, or by IPv4 alone if IPv6 is missing. `most_waiting`: backlog of connections.
[[nodiscard]] Result<ListeningPort> listen_at_any_port(int most_waiting);

}  // namespace outrigger
