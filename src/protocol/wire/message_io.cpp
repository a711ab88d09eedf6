#include "protocol/wire/message_io.hpp"

namespace outrigger::peer {
namespace {

constexpr std::uint8_t kFlagAgain = 1;
constexpr std::uint8_t kFlagExtents = 2;

// ---------------------------------------------------------------- fields of each message, and their checks

template <class Io, Of<Header> M>
void fields(Io& io, M& header) {
  io.value(header.from_epoch);
  io.value(header.to_epoch);
  io.value(header.operation.group.high);
  io.value(header.operation.group.low);
  io.value(header.operation.sequence);
}

// Without the extents, whose form is in `flags`.
template <class Io, Of<Announce> M, class Flags>
void fields(Io& io, M& announce, Flags& flags) {
  io.template code<std::uint8_t>(announce.side);
  io.value(flags);
  io.template code<std::uint16_t>(announce.collective);
  io.template code<std::uint16_t>(announce.algorithm);
  io.template reserved<std::uint16_t>();
  io.value(announce.rank);
  io.value(announce.group_rank);
  io.value(announce.root);
  io.value(announce.region);
  io.value(announce.digest);
  io.value(announce.base);
  io.value(announce.stride_bytes);
  io.value(announce.block_bytes);
  io.value(announce.members);
  io.value(announce.first);
  io.value(announce.count);
  io.template reserved<std::uint32_t>();
}
template <class Io, Of<PairExtent> M>
void fields(Io& io, M& extent) {
  io.value(extent.offset_bytes);
  io.value(extent.bytes);
}
void fields(Writer& out, const Announce& announce) {
  const auto flags =
      static_cast<std::uint8_t>((announce.again ? kFlagAgain : 0) | (announce.extents.empty() ? 0 : kFlagExtents));
  fields(out, announce, flags);
  for (const PairExtent& extent : announce.extents) fields(out, extent);
}
void fields(Reader& in, Announce& announce) {
  std::uint8_t flags = 0;
  fields(in, announce, flags);
  announce.again = (flags & kFlagAgain) != 0;
  if ((flags & ~(kFlagAgain | kFlagExtents)) != 0) return in.refuse();
  if ((flags & kFlagExtents) == 0) return;
  if (in.remaining() != std::size_t{announce.count} * kExtentBytes) return in.refuse();
  announce.extents.resize(announce.count);
  for (PairExtent& extent : announce.extents) fields(in, extent);
}
bool is_valid(const Announce& announce) {
  return announce.count != 0 && announce.first <= announce.members &&
         announce.count <= announce.members - announce.first;
}

template <class Io, Of<Delivered> M>
void fields(Io& io, M& delivered) {
  io.value(delivered.source);
  io.value(delivered.destination);
  io.value(delivered.invite_epoch);
  io.template code<std::uint32_t>(delivered.status);
  io.template code<std::uint32_t>(delivered.reach);
  io.template reserved<std::uint32_t>();
  io.value(delivered.sent_bytes);
  io.value(delivered.moved_bytes);
}
bool is_valid(const Delivered& delivered) {
  return delivered.moved_bytes <= delivered.sent_bytes;
}

template <class Io, Of<Release> M>
void fields(Io& io, M& release) {
  io.value(release.source);
  io.value(release.destination);
  io.template code<std::uint32_t>(release.status);
  io.template reserved<std::uint32_t>();
}

template <class Io, Of<Finished> M>
void fields(Io& io, M& finished) {
  io.value(finished.rank);
  io.template code<std::uint32_t>(finished.status);
}

template <class Io, Of<Refusal> M>
void fields(Io& io, M& refusal) {
  io.value(refusal.from);
  io.value(refusal.to);
}

template <class Io, Of<ReplicaRequest> M>
void fields(Io& io, M& request) {
  io.value(request.source);
  io.value(request.segment);
  io.value(request.digest);
}

template <class Io, Of<ReplicaAnswer> M>
void fields(Io& io, M& answer) {
  io.value(answer.source);
  io.value(answer.segment);
  io.template code<std::uint32_t>(answer.where);
  io.value(answer.service);
  io.value(answer.holder);
  io.value(answer.region);
  io.value(answer.address);
  io.value(answer.bytes);
}

template <class Io, Of<ReplicaDone> M>
void fields(Io& io, M& done) {
  io.value(done.source);
  io.value(done.segment);
}

template <class Io, Of<Quiesce> M>
void fields(Io& io, M& quiesce) {
  io.template code<std::uint32_t>(quiesce.asks);
}

template <class Io, Of<Overdue> M>
void fields(Io& io, M& overdue) {
  io.value(overdue.native_calls);
}

template <class M>
bool is_valid(const M& body) {
  if constexpr (requires { body.segment; }) return body.segment == kWholeBlock || body.segment < kMaxSegments;
  return true;
}

// ---------------------------------------------------------------- common code

// The wire's kind number for an index of Body.
constexpr std::uint8_t kind_at(std::size_t place) {
  const std::size_t kind = place + 1;
  return static_cast<std::uint8_t>(kind < kCoordinatorKinds ? kind : kind - kCoordinatorKinds + kCoordinatorKindsEnd);
}

template <std::size_t place = 0>
[[nodiscard]] std::optional<Body> read_body(std::uint8_t kind, Reader& in) {
  if constexpr (place == std::variant_size_v<Body>) {
    return std::nullopt;
  } else {
    if (kind != kind_at(place)) return read_body<place + 1>(kind, in);
    std::variant_alternative_t<place, Body> body;
    fields(in, body);
    if (!in.valid() || in.remaining() != 0 || !is_valid(body)) return std::nullopt;
    return body;
  }
}

constexpr std::size_t kHeaderBytes = 36;
constexpr std::size_t kAnnounceBodyBytes = 72;

}  // namespace

std::size_t announce_bytes() {
  return kHeaderBytes + kAnnounceBodyBytes;
}

void write_header(Writer& out, std::uint8_t kind, const Header& header) {
  out.value(kVersion);
  out.value(kind);
  out.reserved<std::uint8_t>();
  fields(out, header);
}

std::optional<Beginning> read_header(Reader& in) {
  Beginning beginning;
  std::uint16_t version = 0;
  in.value(version);
  in.value(beginning.kind);
  in.reserved<std::uint8_t>();
  fields(in, beginning.header);
  if (!in.valid() || version != kVersion || beginning.header.from_epoch == Epoch{0}) return std::nullopt;
  if (beginning.header.operation.sequence == ~std::uint64_t{0}) return std::nullopt;  // the next one would be 0 again
  return beginning;
}

void encode(const Message& message, std::vector<std::byte>& out) {
  Writer writer(out);
  write_header(writer, kind_at(message.body.index()), message.header);
  std::visit([&writer](const auto& body) { fields(writer, body); }, message.body);
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const std::optional<Beginning> beginning = read_header(in);
  if (!beginning) return std::nullopt;
  std::optional<Body> body = read_body(beginning->kind, in);
  return body ? std::optional(Message{beginning->header, std::move(*body)}) : std::nullopt;
}

bool is_for_coordinator(std::span<const std::byte> bytes) {
  constexpr std::size_t kKindAt = sizeof(kVersion);
  if (bytes.size() <= kKindAt) return false;
  const auto kind = std::to_integer<std::uint8_t>(bytes[kKindAt]);
  return kind >= kCoordinatorKinds && kind < kCoordinatorKindsEnd;
}

std::optional<OperationId> announced(std::span<const std::byte> bytes) {
  constexpr std::uint8_t kAnnounce = 1;  // index of Announce in Body, from 1
  Reader in(bytes);
  const std::optional<Beginning> beginning = read_header(in);
  return beginning && beginning->kind == kAnnounce ? std::optional(beginning->header.operation) : std::nullopt;
}

}  // namespace outrigger::peer
