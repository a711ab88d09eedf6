#include "protocol/peer_messages.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

namespace outrigger::peer {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

enum class Type : std::uint8_t {
  announce = 1,
  delivered = 2,
  release = 3,
  finished = 4,
  refusal = 5,
  replica_request = 6,
  replica_answer = 7,
  replica_done = 8,
  quiesce = 9
};

constexpr std::uint8_t kFlagAgain = 1;
constexpr std::uint8_t kFlagExtents = 2;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  void put(T value) {
    static_assert(std::is_integral_v<T>);
    const std::size_t at = out_.size();
    out_.resize(at + sizeof(T));
    std::memcpy(out_.data() + at, &value, sizeof(T));
  }
  template <class Tag, class Rep>
  void put(StrongId<Tag, Rep> id) {
    put(id.value());
  }

 private:
  std::vector<std::byte>& out_;
};

// Reads past the end yield zeros and are remembered.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  [[nodiscard]] T get() {
    static_assert(std::is_integral_v<T>);
    T value{};
    if (rest_.size() < sizeof(T)) {
      short_ = true;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  template <class Id>
  [[nodiscard]] Id id() {
    return Id{get<typename Id::Representation>()};
  }
  [[nodiscard]] std::size_t remaining() const { return rest_.size(); }
  [[nodiscard]] bool ended_exactly() const { return !short_ && rest_.empty(); }
  [[nodiscard]] bool ran_short() const { return short_; }

 private:
  std::span<const std::byte> rest_;
  bool short_ = false;
};

[[nodiscard]] std::optional<CompletionStatus> status_of(std::uint32_t raw) {
  if (raw > static_cast<std::uint32_t>(CompletionStatus::peer_lost)) return std::nullopt;
  return static_cast<CompletionStatus>(raw);
}

void put_body(Writer& out, const Announce& announce) {
  out.put(static_cast<std::uint8_t>(announce.side));
  out.put(static_cast<std::uint8_t>((announce.again ? kFlagAgain : 0) | (announce.extents.empty() ? 0 : kFlagExtents)));
  out.put(static_cast<std::uint16_t>(announce.collective));
  out.put(static_cast<std::uint16_t>(announce.algorithm));
  out.put(std::uint16_t{0});
  out.put(announce.rank);
  out.put(announce.group_rank);
  out.put(announce.root);
  out.put(announce.region);
  out.put(announce.digest);
  out.put(announce.base);
  out.put(announce.stride_bytes);
  out.put(announce.block_bytes);
  out.put(announce.members);
  out.put(announce.first);
  out.put(announce.count);
  out.put(std::uint32_t{0});
  for (const PairExtent& extent : announce.extents) {
    out.put(extent.offset_bytes);
    out.put(extent.bytes);
  }
}

void put_body(Writer& out, const Delivered& delivered) {
  out.put(delivered.source);
  out.put(delivered.destination);
  out.put(delivered.invite_epoch);
  out.put(static_cast<std::uint32_t>(delivered.status));
  out.put(static_cast<std::uint32_t>(delivered.reach));
  out.put(std::uint32_t{0});
  out.put(delivered.sent_bytes);
  out.put(delivered.moved_bytes);
}

void put_body(Writer& out, const Release& release) {
  out.put(release.source);
  out.put(release.destination);
  out.put(static_cast<std::uint32_t>(release.status));
  out.put(std::uint32_t{0});
}

void put_body(Writer& out, const Finished& finished) {
  out.put(finished.rank);
  out.put(static_cast<std::uint32_t>(finished.status));
}

void put_body(Writer& out, const Refusal& refusal) {
  out.put(refusal.from);
  out.put(refusal.to);
}

void put_body(Writer& out, const ReplicaRequest& request) {
  out.put(request.source);
  out.put(request.segment);
  out.put(request.digest);
}

void put_body(Writer& out, const ReplicaAnswer& answer) {
  out.put(answer.source);
  out.put(answer.segment);
  out.put(static_cast<std::uint32_t>(answer.where));
  out.put(answer.service);
  out.put(answer.holder);
  out.put(answer.region);
  out.put(answer.address);
  out.put(answer.bytes);
}

void put_body(Writer& out, const ReplicaDone& done) {
  out.put(done.source);
  out.put(done.segment);
}

void put_body(Writer& out, const Quiesce& quiesce) {
  out.put(std::uint32_t{quiesce.asks ? 1U : 0U});
}

[[nodiscard]] Type type_of(const Body& body) {
  return static_cast<Type>(body.index() + 1);
}

[[nodiscard]] std::optional<Body> get_announce(Reader& in) {
  Announce announce;
  const auto side = in.get<std::uint8_t>();
  const auto flags = in.get<std::uint8_t>();
  const auto collective = in.get<std::uint16_t>();
  const auto algorithm = in.get<std::uint16_t>();
  const auto reserved16 = in.get<std::uint16_t>();
  announce.rank = in.id<WorldRank>();
  announce.group_rank = in.id<GroupRank>();
  announce.root = in.get<std::uint32_t>();
  announce.region = in.id<RegionId>();
  announce.digest = in.get<std::uint64_t>();
  announce.base = in.get<std::uint64_t>();
  announce.stride_bytes = in.get<std::int64_t>();
  announce.block_bytes = in.get<std::uint64_t>();
  announce.members = in.get<std::uint32_t>();
  announce.first = in.get<std::uint32_t>();
  announce.count = in.get<std::uint32_t>();
  const auto reserved32 = in.get<std::uint32_t>();
  if (in.ran_short() || reserved16 != 0 || reserved32 != 0) return std::nullopt;
  if (side != static_cast<std::uint8_t>(Side::send) && side != static_cast<std::uint8_t>(Side::receive)) {
    return std::nullopt;
  }
  if ((flags & ~(kFlagAgain | kFlagExtents)) != 0) return std::nullopt;
  announce.side = static_cast<Side>(side);
  announce.again = (flags & kFlagAgain) != 0;
  // Not checked for being known: another version may have more, and the digest tells that ranks disagree.
  announce.collective = static_cast<Collective>(collective);
  announce.algorithm = static_cast<Algorithm>(algorithm);
  if (announce.count == 0 || announce.first > announce.members || announce.count > announce.members - announce.first) {
    return std::nullopt;
  }
  if ((flags & kFlagExtents) == 0) return announce;
  if (in.remaining() != std::size_t{announce.count} * kExtentBytes) return std::nullopt;
  announce.extents.resize(announce.count);
  for (PairExtent& extent : announce.extents) {
    extent.offset_bytes = in.get<std::int64_t>();
    extent.bytes = in.get<std::uint64_t>();
  }
  return announce;
}

[[nodiscard]] std::optional<Body> get_delivered(Reader& in) {
  Delivered delivered;
  delivered.source = in.id<GroupRank>();
  delivered.destination = in.id<GroupRank>();
  delivered.invite_epoch = in.id<Epoch>();
  const auto status = status_of(in.get<std::uint32_t>());
  const auto reach = in.get<std::uint32_t>();
  const auto reserved = in.get<std::uint32_t>();
  delivered.sent_bytes = in.get<std::uint64_t>();
  delivered.moved_bytes = in.get<std::uint64_t>();
  if (!status || reach >= kReachCount || reserved != 0 || delivered.moved_bytes > delivered.sent_bytes) {
    return std::nullopt;
  }
  delivered.status = *status;
  delivered.reach = static_cast<Reach>(reach);
  return delivered;
}

[[nodiscard]] std::optional<Body> get_release(Reader& in) {
  Release release;
  release.source = in.id<GroupRank>();
  release.destination = in.id<GroupRank>();
  const auto status = status_of(in.get<std::uint32_t>());
  const auto reserved = in.get<std::uint32_t>();
  if (!status || reserved != 0) return std::nullopt;
  release.status = *status;
  return release;
}

[[nodiscard]] std::optional<Body> get_finished(Reader& in) {
  Finished finished;
  finished.rank = in.id<WorldRank>();
  const auto status = status_of(in.get<std::uint32_t>());
  if (!status) return std::nullopt;
  finished.status = *status;
  return finished;
}

[[nodiscard]] std::optional<Body> get_refusal(Reader& in) {
  Refusal refusal;
  refusal.from = in.id<GroupRank>();
  refusal.to = in.id<GroupRank>();
  return refusal;
}

[[nodiscard]] bool valid_segment(std::uint32_t segment) {
  return segment == kWholeBlock || segment < kMaxSegments;
}

[[nodiscard]] std::optional<Body> get_replica_request(Reader& in) {
  ReplicaRequest request;
  request.source = in.id<GroupRank>();
  request.segment = in.get<std::uint32_t>();
  request.digest = in.get<std::uint64_t>();
  if (!valid_segment(request.segment)) return std::nullopt;
  return request;
}

[[nodiscard]] std::optional<Body> get_replica_answer(Reader& in) {
  ReplicaAnswer answer;
  answer.source = in.id<GroupRank>();
  answer.segment = in.get<std::uint32_t>();
  const auto where = in.get<std::uint32_t>();
  answer.service = in.id<SpId>();
  answer.holder = in.id<GroupRank>();
  answer.region = in.id<RegionId>();
  answer.address = in.get<std::uint64_t>();
  answer.bytes = in.get<std::uint64_t>();
  if (!valid_segment(answer.segment) || where < static_cast<std::uint32_t>(Where::nowhere) ||
      where > static_cast<std::uint32_t>(Where::forwarded)) {
    return std::nullopt;
  }
  answer.where = static_cast<Where>(where);
  return answer;
}

[[nodiscard]] std::optional<Body> get_replica_done(Reader& in) {
  ReplicaDone done;
  done.source = in.id<GroupRank>();
  done.segment = in.get<std::uint32_t>();
  if (!valid_segment(done.segment)) return std::nullopt;
  return done;
}

[[nodiscard]] std::optional<Body> get_quiesce(Reader& in) {
  const auto asks = in.get<std::uint32_t>();
  if (asks > 1) return std::nullopt;
  return Quiesce{asks == 1};
}

[[nodiscard]] std::optional<Body> get_body(Type type, Reader& in) {
  switch (type) {
    case Type::announce: return get_announce(in);
    case Type::delivered: return get_delivered(in);
    case Type::release: return get_release(in);
    case Type::finished: return get_finished(in);
    case Type::refusal: return get_refusal(in);
    case Type::replica_request: return get_replica_request(in);
    case Type::replica_answer: return get_replica_answer(in);
    case Type::replica_done: return get_replica_done(in);
    case Type::quiesce: return get_quiesce(in);
  }
  return std::nullopt;
}

constexpr std::size_t kHeaderBytes = 36;
constexpr std::size_t kAnnounceBodyBytes = 72;

}  // namespace

std::size_t announce_bytes() {
  return kHeaderBytes + kAnnounceBodyBytes;
}

void encode(const Message& message, std::vector<std::byte>& out) {
  Writer writer(out);
  writer.put(kVersion);
  writer.put(static_cast<std::uint8_t>(type_of(message.body)));
  writer.put(std::uint8_t{0});
  writer.put(message.header.from_epoch);
  writer.put(message.header.to_epoch);
  writer.put(message.header.operation.group.high);
  writer.put(message.header.operation.group.low);
  writer.put(message.header.operation.sequence);
  std::visit([&writer](const auto& body) { put_body(writer, body); }, message.body);
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const auto version = in.get<std::uint16_t>();
  const auto type = in.get<std::uint8_t>();
  const auto reserved = in.get<std::uint8_t>();
  Message message;
  message.header.from_epoch = in.id<Epoch>();
  message.header.to_epoch = in.id<Epoch>();
  message.header.operation.group.high = in.get<std::uint64_t>();
  message.header.operation.group.low = in.get<std::uint64_t>();
  message.header.operation.sequence = in.get<std::uint64_t>();
  if (in.ran_short() || version != kVersion || reserved != 0) return std::nullopt;
  if (message.header.from_epoch == Epoch{0}) return std::nullopt;
  if (message.header.operation.sequence == ~std::uint64_t{0}) return std::nullopt;  // next sequence would wrap
  std::optional<Body> body = get_body(static_cast<Type>(type), in);
  if (!body || !in.ended_exactly()) return std::nullopt;
  message.body = std::move(*body);
  return message;
}

}  // namespace outrigger::peer
