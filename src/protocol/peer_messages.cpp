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
  want = 6,
  copy = 7,
  done = 8,
  quiet = 9
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

void put_body(Writer& out, const Want& want) {
  out.put(want.source);
  out.put(want.piece);
  out.put(want.digest);
}

void put_body(Writer& out, const Copy& copy) {
  out.put(copy.source);
  out.put(copy.piece);
  out.put(static_cast<std::uint32_t>(copy.where));
  out.put(copy.service);
  out.put(copy.holder);
  out.put(copy.region);
  out.put(copy.address);
  out.put(copy.bytes);
}

void put_body(Writer& out, const Done& done) {
  out.put(done.source);
  out.put(done.piece);
}

void put_body(Writer& out, const Quiet& quiet) {
  out.put(std::uint32_t{quiet.asks ? 1U : 0U});
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

[[nodiscard]] bool valid_piece(std::uint32_t piece) {
  return piece == kWholeBlock || piece < kMaxPieces;
}

[[nodiscard]] std::optional<Body> get_want(Reader& in) {
  Want want;
  want.source = in.id<GroupRank>();
  want.piece = in.get<std::uint32_t>();
  want.digest = in.get<std::uint64_t>();
  if (!valid_piece(want.piece)) return std::nullopt;
  return want;
}

[[nodiscard]] std::optional<Body> get_copy(Reader& in) {
  Copy copy;
  copy.source = in.id<GroupRank>();
  copy.piece = in.get<std::uint32_t>();
  const auto where = in.get<std::uint32_t>();
  copy.service = in.id<SpId>();
  copy.holder = in.id<GroupRank>();
  copy.region = in.id<RegionId>();
  copy.address = in.get<std::uint64_t>();
  copy.bytes = in.get<std::uint64_t>();
  if (!valid_piece(copy.piece) || where < static_cast<std::uint32_t>(Where::nowhere) ||
      where > static_cast<std::uint32_t>(Where::elsewhere)) {
    return std::nullopt;
  }
  copy.where = static_cast<Where>(where);
  return copy;
}

[[nodiscard]] std::optional<Body> get_done(Reader& in) {
  Done done;
  done.source = in.id<GroupRank>();
  done.piece = in.get<std::uint32_t>();
  if (!valid_piece(done.piece)) return std::nullopt;
  return done;
}

[[nodiscard]] std::optional<Body> get_quiet(Reader& in) {
  const auto asks = in.get<std::uint32_t>();
  if (asks > 1) return std::nullopt;
  return Quiet{asks == 1};
}

[[nodiscard]] std::optional<Body> get_body(Type type, Reader& in) {
  switch (type) {
    case Type::announce: return get_announce(in);
    case Type::delivered: return get_delivered(in);
    case Type::release: return get_release(in);
    case Type::finished: return get_finished(in);
    case Type::refusal: return get_refusal(in);
    case Type::want: return get_want(in);
    case Type::copy: return get_copy(in);
    case Type::done: return get_done(in);
    case Type::quiet: return get_quiet(in);
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
