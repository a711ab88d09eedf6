// SOCK_SEQPACKET sockets in the abstract namespace: nothing is left in the file system.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace outrigger::client {

// A listening, non-blocking socket. `name` has at most 63 characters.
[[nodiscard]] Result<UniqueFd> listen_at(std::string_view name);

enum class ConnectOutcome { connected, not_there, failed };

// A connected, non-blocking socket in `fd`. `not_there`: nobody listens (yet), or the queue is full; errno is kept for
// `failed`.
[[nodiscard]] ConnectOutcome connect_to(std::string_view name, UniqueFd& fd);

}  // namespace outrigger::client
