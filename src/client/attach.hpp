// From a keeper's address to a welcomed rank.
#pragma once

#include "client/client.hpp"
#include "client/core.hpp"

namespace outrigger::client {

[[nodiscard]] Result<CoreParts> join_keeper(const AttachOptions& options);

}  // namespace outrigger::client
