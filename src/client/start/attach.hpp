// Attaches a rank to the keeper at an address.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "client/rank_endpoint.hpp"
#include "client/start/attach_options.hpp"

namespace outrigger::client {

struct EndEndpoint {
  void operator()(RankEndpoint* endpoint);
  std::shared_ptr<RankEndpoint> kept;
};
// Ends the connection when it goes: RankEndpoint::shut_down().
using AttachedEndpoint = std::unique_ptr<RankEndpoint, EndEndpoint>;

// Connects to the keeper and waits, a bounded time, until the service processes know this rank.
[[nodiscard]] Result<AttachedEndpoint> attach(const AttachOptions& options);

}  // namespace outrigger::client
