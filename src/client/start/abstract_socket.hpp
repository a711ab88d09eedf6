// SOCK_SEQPACKET sockets in the abstract namespace: nothing stays in the file system.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace outrigger::client {

// A listening, nonblocking socket. `name` has at most 107 characters.
[[nodiscard]] Result<UniqueFd> listen_at(std::string_view name);

enum class ConnectOutcome { connected, later, nobody, failed };

// A connected, nonblocking socket in `fd`. `later`: the queue is full; `nobody`: no listener; errno is kept for
// `failed`.
[[nodiscard]] ConnectOutcome connect_to(std::string_view name, UniqueFd& fd);

}  // namespace outrigger::client
