// A TCP port of the system's choice, at every address of this machine.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace outrigger {

struct ListeningPort {
  UniqueFd socket;  // does not block
  std::uint16_t port = 0;
};

// Listens by IPv6 and IPv4, or by IPv4 alone where there is nothing else. `most_waiting`: connections that may wait to
// be accepted.
[[nodiscard]] Result<ListeningPort> listen_at_any_port(int most_waiting);

}  // namespace outrigger
