#include "protocol/wire/peer_messages.hpp"

namespace outrigger::peer {
namespace {

constexpr std::size_t kCoordinatorsKinds = kCoordinatorKindsEnd - kCoordinatorKinds;

// The wire's kind number for an index of Body, and back.
constexpr std::uint8_t kind_at(std::size_t index) {
  const std::size_t kind = index + 1;
  return static_cast<std::uint8_t>(kind < kCoordinatorKinds ? kind : kind + kCoordinatorsKinds);
}
constexpr std::size_t index_of(std::uint8_t kind) {
  if (kind < kCoordinatorKinds) return kind - std::size_t{1};
  return kind < kCoordinatorKindsEnd ? std::variant_size_v<Body> : kind - kCoordinatorsKinds - 1;
}

}  // namespace

std::size_t announce_bytes() {
  return encoded_bytes(Beginning()) + encoded_bytes(Announce());
}

void encode(const Message& message, std::vector<std::byte>& out) {
  append(out, Beginning{kind_at(message.body.index()), message.header});
  std::visit([&out](const auto& body) { append(out, body); }, message.body);
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  const std::optional<Beginning> beginning = take_first<Beginning>(bytes);
  if (!beginning) return std::nullopt;
  std::optional<Body> body = decoded_alternative<Body>(index_of(beginning->kind), bytes);
  return body ? std::optional(Message{beginning->header, std::move(*body)}) : std::nullopt;
}

bool is_for_coordinator(std::span<const std::byte> bytes) {
  constexpr std::size_t kKindAt = sizeof(kVersion);
  if (bytes.size() <= kKindAt) return false;
  const auto kind = std::to_integer<std::uint8_t>(bytes[kKindAt]);
  return kind >= kCoordinatorKinds && kind < kCoordinatorKindsEnd;
}

std::optional<OperationId> announced(std::span<const std::byte> bytes) {
  const std::optional<Beginning> beginning = take_first<Beginning>(bytes);
  return beginning && beginning->kind == kind_at(0) ? std::optional(beginning->header.operation) : std::nullopt;
}

}  // namespace outrigger::peer
