#include "protocol/wire/peer_messages.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

namespace outrigger::peer {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

constexpr std::uint8_t kFlagAgain = 1;
constexpr std::uint8_t kFlagExtents = 2;

// The lists of fields below are read by a Writer and a Reader alike.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  void value(T value) {
    static_assert(std::is_integral_v<T>);
    const std::size_t at = out_.size();
    out_.resize(at + sizeof(T));
    std::memcpy(out_.data() + at, &value, sizeof(T));
  }
  template <class Tag, class Rep>
  void value(StrongId<Tag, Rep> id) {
    value(id.value());
  }
  // An enumeration, as the integer type that is named.
  template <class Wire, class Enum>
  void code(Enum value_of) {
    value(static_cast<Wire>(value_of));
  }
  template <class T>
  void reserved() {
    value(T{0});
  }
  void course(const Course& course) {
    for (const std::uint32_t word : course.encode()) value(word);
  }

 private:
  std::vector<std::byte>& out_;
};

// Reads past the end yield zeros and are remembered.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  void value(T& value) {
    static_assert(std::is_integral_v<T>);
    value = T{};
    if (rest_.size() < sizeof(T)) {
      valid_ = false;
      return;
    }
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
  }
  template <class Tag, class Rep>
  void value(StrongId<Tag, Rep>& id) {
    Rep raw{};
    value(raw);
    id = StrongId<Tag, Rep>{raw};
  }
  template <class Wire, class Enum>
  void code(Enum& value_of) {
    Wire raw{};
    value(raw);
    if (is_code<Enum>(raw)) {
      value_of = static_cast<Enum>(raw);
    } else {
      valid_ = false;
    }
  }
  template <class T>
  void reserved() {
    T raw{};
    value(raw);
    if (raw != 0) valid_ = false;
  }
  void course(Course& course) {
    Course::Words words{};
    for (std::uint32_t& word : words) value(word);
    const std::optional<Course> decoded = Course::decode(words);
    if (!decoded) return refuse();
    course = *decoded;
  }
  [[nodiscard]] std::size_t remaining() const { return rest_.size(); }
  void refuse() { valid_ = false; }
  [[nodiscard]] bool valid() const { return valid_; }

 private:
  // Collective and algorithm are not checked for being known: another version may have more, and the digest tells that
  // ranks disagree.
  template <class Enum>
  [[nodiscard]] static bool is_code(std::uint32_t raw) {
    if constexpr (std::is_same_v<Enum, CompletionStatus>)
      return raw <= static_cast<std::uint32_t>(Enum::passed_natively);
    if constexpr (std::is_same_v<Enum, Reach>) return raw < kReachCount;
    if constexpr (std::is_same_v<Enum, Where>) return raw >= 1 && raw <= static_cast<std::uint32_t>(Where::forwarded);
    if constexpr (std::is_same_v<Enum, Side>) return raw == 1 || raw == 2;
    if constexpr (std::is_same_v<Enum, bool>) return raw <= 1;
    return true;
  }

  std::span<const std::byte> rest_;
  bool valid_ = true;
};

// A message, const where it is written.
template <class M, class Plain>
concept Of = std::is_same_v<std::remove_const_t<M>, Plain>;

// ---------------------------------------------------------------- the fields of each message, and what they must be

template <class Io, Of<Header> M>
void fields(Io& io, M& header) {
  io.value(header.from_epoch);
  io.value(header.to_epoch);
  io.value(header.operation.group.high);
  io.value(header.operation.group.low);
  io.value(header.operation.sequence);
}

// Without the extents, which `flags` speaks of.
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

template <class Io, Of<Wish> M>
void fields(Io& io, M& wish) {
  io.value(wish.suspended.busy);
  io.value(wish.suspended.small);
  io.template code<std::uint32_t>(wish.suspended.failing);
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
bool is_valid(const Hold& hold) {
  return hold.holds;
}
bool is_valid(const Held& held) {
  return held.least <= held.most;
}

template <class Io, Of<Resume> M>
void fields(Io& io, M& resume) {
  io.template code<std::uint32_t>(resume.changes);
  io.value(resume.plan.from);
  io.course(resume.plan.before);
  io.course(resume.plan.after);
}

template <class Io, Of<Measured> M>
void fields(Io& io, M& measured) {
  io.value(measured.trial);
  io.template reserved<std::uint16_t>();
  for (auto& nanoseconds : measured.times.lost_ns) io.value(nanoseconds);
  io.value(measured.times.passed_ns);
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

// ---------------------------------------------------------------- any of them

template <std::size_t kind = 0>
[[nodiscard]] std::optional<Body> read_body(std::size_t type, Reader& in) {
  if constexpr (kind == std::variant_size_v<Body>) {
    return std::nullopt;
  } else {
    if (type != kind + 1) return read_body<kind + 1>(type, in);
    std::variant_alternative_t<kind, Body> body;
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

// The kind is the place in Body, from 1.
void encode(const Message& message, std::vector<std::byte>& out) {
  Writer writer(out);
  writer.value(kVersion);
  writer.value(static_cast<std::uint8_t>(message.body.index() + 1));
  writer.reserved<std::uint8_t>();
  fields(writer, message.header);
  std::visit([&writer](const auto& body) { fields(writer, body); }, message.body);
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Message message;
  std::uint16_t version = 0;
  std::uint8_t type = 0;
  in.value(version);
  in.value(type);
  in.reserved<std::uint8_t>();
  fields(in, message.header);
  if (!in.valid() || version != kVersion || message.header.from_epoch == Epoch{0}) return std::nullopt;
  if (message.header.operation.sequence == ~std::uint64_t{0}) return std::nullopt;  // the next one would be 0 again
  std::optional<Body> body = read_body(type, in);
  if (!body) return std::nullopt;
  message.body = std::move(*body);
  return message;
}

std::optional<OperationId> announced(std::span<const std::byte> bytes) {
  constexpr std::uint8_t kAnnounce = 1;  // the place of Announce in Body, from 1
  Reader in(bytes);
  std::uint16_t version = 0;
  std::uint8_t type = 0;
  Header header;
  in.value(version);
  in.value(type);
  in.reserved<std::uint8_t>();
  fields(in, header);
  if (!in.valid() || version != kVersion || type != kAnnounce) return std::nullopt;
  return header.operation;
}

}  // namespace outrigger::peer
