#include "steer/coordinator/messages.hpp"

#include "protocol/wire/message_io.hpp"

namespace outrigger::steer {
namespace {

using peer::Of;
using peer::Reader;
using peer::Writer;

// ---------------------------------------------------------------- the fields of each message, and what they must be

void fields(Writer& out, const DispatchPlan& plan) {
  for (const std::uint32_t word : plan.encode()) out.value(word);
}
void fields(Reader& in, DispatchPlan& plan) {
  DispatchPlan::Words words{};
  for (std::uint32_t& word : words) in.value(word);
  const std::optional<DispatchPlan> decoded = DispatchPlan::decode(words);
  if (!decoded) return in.refuse();
  plan = *decoded;
}

template <class Io, Of<Vote> M>
void fields(Io& io, M& vote) {
  io.value(vote.suspended.busy);
  io.value(vote.suspended.small);
  io.template code<std::uint32_t>(vote.suspended.failing);
}
template <class Io, Of<Hold> M>
void fields(Io& io, M& hold) {
  io.template code<std::uint32_t>(hold.holds);
}
template <class Io, Of<Held> M>
void fields(Io& io, M& held) {
  io.template code<std::uint32_t>(held.held);
  io.value(held.least);
  io.value(held.most);
}
template <class Io, Of<Resume> M>
void fields(Io& io, M& resume) {
  io.template code<std::uint32_t>(resume.changes);
  io.value(resume.change.from);
  fields(io, resume.change.before);
  fields(io, resume.change.after);
}
template <class Io, Of<Measured> M>
void fields(Io& io, M& measured) {
  io.value(measured.trial);
  io.template reserved<std::uint16_t>();
  for (auto& nanoseconds : measured.times.lost_ns) io.value(nanoseconds);
  io.value(measured.times.passed_ns);
}

template <class M>
bool is_valid(const M& body) {
  if constexpr (std::is_same_v<M, Hold>) return body.holds;
  if constexpr (std::is_same_v<M, Held>) return body.least <= body.most;
  return true;
}

template <std::size_t place = 0>
std::optional<Body> read_body(std::size_t kind, Reader& in) {
  if constexpr (place < std::variant_size_v<Body>) {
    if (kind != peer::kCoordinatorKinds + place) return read_body<place + 1>(kind, in);
    std::variant_alternative_t<place, Body> body;
    fields(in, body);
    if (in.valid() && in.remaining() == 0 && is_valid(body)) return body;
  }
  return std::nullopt;
}

}  // namespace

void encode(const Message& message, std::vector<std::byte>& out) {
  Writer writer(out);
  peer::write_header(writer, static_cast<std::uint8_t>(peer::kCoordinatorKinds + message.body.index()), message.header);
  std::visit([&writer](const auto& body) { fields(writer, body); }, message.body);
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const std::optional<peer::Beginning> beginning = peer::read_header(in);
  if (!beginning) return std::nullopt;
  const std::optional<Body> body = read_body(beginning->kind, in);
  return body ? std::optional(Message{beginning->header, *body}) : std::nullopt;
}

}  // namespace outrigger::steer
