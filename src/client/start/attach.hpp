// Attaches a rank to the keeper at an address.
#pragma once

#include "client/rank_endpoint.hpp"
#include "client/start/attach_options.hpp"

namespace outrigger::client {

[[nodiscard]] Result<EndpointParts> join_keeper(const AttachOptions& options);

}  // namespace outrigger::client
