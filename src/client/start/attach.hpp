// From a keeper's address to a welcomed rank.
#pragma once

#include "client/rank_endpoint.hpp"
#include "client/start/attach_options.hpp"

namespace outrigger::client {

[[nodiscard]] Result<EndpointParts> join_keeper(const AttachOptions& options);

}  // namespace outrigger::client
