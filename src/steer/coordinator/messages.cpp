#include "steer/coordinator/messages.hpp"

namespace outrigger::steer {

void plan_field(Writer& out, const DispatchPlan& plan) {
  out.value(plan.encode());
}

void plan_field(Reader& in, DispatchPlan& plan) {
  DispatchPlan::Words words{};
  in.value(words);
  const std::optional<DispatchPlan> decoded = DispatchPlan::decode(words);
  in.require(decoded.has_value());
  plan = decoded.value_or(DispatchPlan());
}

void encode(const Message& message, std::vector<std::byte>& out) {
  const auto kind = static_cast<std::uint8_t>(peer::kCoordinatorKinds + message.body.index());
  append(out, peer::Beginning{kind, message.header});
  std::visit([&out](const auto& body) { append(out, body); }, message.body);
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  const std::optional<peer::Beginning> beginning = take_first<peer::Beginning>(bytes);
  if (!beginning) return std::nullopt;
  const std::optional<Body> body =
      decoded_alternative<Body>(std::size_t{beginning->kind} - peer::kCoordinatorKinds, bytes);
  return body ? std::optional(Message{beginning->header, *body}) : std::nullopt;
}

}  // namespace outrigger::steer
