// The first rank of a node speaks for it when nodes get to know each other.
#include "protocol/job_map.hpp"

#include <algorithm>
#include <cstring>

#include "base/shared_memory.hpp"
#include "client/rank_endpoint.hpp"

namespace outrigger::client {

using std::chrono::milliseconds;

Result<std::vector<std::byte>> RankEndpoint::node_descriptor(std::uint32_t timeout_ms) {
  Result<ControlMessage> message = control_.wait_for(ControlKind::node_descriptor, milliseconds(timeout_ms));
  if (!message) return Error{message.error()};
  const auto body = message.value().body<SharedBytesBody>();
  return read_shared_bytes(message.value().fds()[0].get(), body.bytes, kMaxJobMapBytes);
}

Status RankEndpoint::take_job_map(std::span<const std::byte> descriptors, std::uint32_t node,
                                  std::uint32_t timeout_ms) {
  Result<UniqueFd> shared = share_bytes("outrigger-job-map", descriptors);
  if (!shared) return Error{shared.error()};
  if (!control_.send_job_map(descriptors.size(), node, shared.value().get())) {
    return Error{"the keeper of this node takes no job map"};
  }
  Result<ControlMessage> answer = control_.wait_for(ControlKind::job_map_taken, milliseconds(timeout_ms));
  if (!answer) return Error{answer.error()};
  const auto body = answer.value().body<JobMapTakenBody>();
  if (body.ok != 0) return Done{};
  return Error{std::string(body.reason.data(), ::strnlen(body.reason.data(), body.reason.size()))};
}

std::vector<WireRoute> RankEndpoint::wire_routes() const {
  if (inert()) return {};
  const std::uint32_t count = header().wire_route_count.load(std::memory_order_acquire);
  const auto first = header().wire_routes.begin();
  return {first, first + std::min(count, kMaxWireRoutes)};
}

}  // namespace outrigger::client
