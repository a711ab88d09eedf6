// The first rank of a node speaks for it when nodes get to know each other.
#include "protocol/roster.hpp"

#include <algorithm>
#include <cstring>

#include "client/core.hpp"
#include "protocol/shared_memory.hpp"

namespace outrigger::client {

using std::chrono::milliseconds;

Result<std::vector<std::byte>> Core::node_card(std::uint32_t timeout_ms) {
  Result<ControlMessage> message = control_.wait_for(ControlKind::node_card, milliseconds(timeout_ms));
  if (!message) return Error{message.error()};
  const auto body = message.value().body<SharedBytesBody>();
  return read_shared_bytes(message.value().fds()[0].get(), body.bytes, kMaxRosterBytes);
}

Status Core::take_roster(std::span<const std::byte> cards, std::uint32_t node, std::uint32_t timeout_ms) {
  Result<UniqueFd> shared = share_bytes("outrigger-roster", cards);
  if (!shared) return Error{shared.error()};
  if (!control_.send_roster(cards.size(), node, shared.value().get())) {
    return Error{"the keeper of this node takes no roster"};
  }
  Result<ControlMessage> answer = control_.wait_for(ControlKind::roster_taken, milliseconds(timeout_ms));
  if (!answer) return Error{answer.error()};
  const auto body = answer.value().body<RosterTakenBody>();
  if (body.ok != 0) return Done{};
  return Error{std::string(body.reason.data(), ::strnlen(body.reason.data(), body.reason.size()))};
}

std::vector<WireRoute> Core::wire_routes() const {
  if (inert()) return {};
  const std::uint32_t count = header().wire_route_count.load(std::memory_order_acquire);
  const auto first = header().wire_routes.begin();
  return {first, first + std::min(count, kMaxWireRoutes)};
}

}  // namespace outrigger::client
