#include "protocol/wire/wire_messages.hpp"

#include <array>
#include <cassert>
#include <cstring>
#include <limits>

#include "protocol/wire/plain_bytes.hpp"

namespace outrigger::wire {
namespace {

constexpr std::uint32_t kMagic = 0x4F525733;  // "ORW3"

// Layout on the wire.
struct Plain {
  std::uint32_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t status = 0;
  std::uint32_t from = 0;
  std::uint32_t owner = 0;
  std::uint64_t move = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t region = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Plain) == kHeaderBytes);

struct PlainBlockId {
  std::uint64_t group_high = 0;
  std::uint64_t group_low = 0;
  std::uint64_t sequence = 0;
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
};
static_assert(sizeof(PlainBlockId) == kBlockIdBytes);

struct PlainOperands {
  std::uint8_t operation = 0;
  std::uint8_t type = 0;
  std::uint16_t others = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(PlainOperands) == 8);

struct PlainOperand {
  std::uint32_t owner = 0;
  std::uint32_t region = 0;
  std::uint64_t address = 0;
};
static_assert(sizeof(PlainOperand) == 16);

constexpr std::uint16_t kStatuses = 3;  // of fabric::MoveStatus

}  // namespace

EncodedHeader encode_wire(const Header& header) {
  Plain plain;
  plain.kind = static_cast<std::uint16_t>(header.kind);
  plain.status = header.status;
  plain.from = header.from.value();
  plain.owner = header.memory.owner.value();
  plain.move = header.move;
  plain.offset = header.offset;
  plain.bytes = header.bytes;
  plain.address = header.memory.address;
  plain.region = header.memory.region.value();
  EncodedHeader bytes;
  std::memcpy(bytes.data(), &plain, sizeof(plain));
  return bytes;
}

std::optional<Header> decode_wire(std::span<const std::byte> bytes) {
  Plain plain;
  if (bytes.size() != sizeof(plain)) return std::nullopt;
  std::memcpy(&plain, bytes.data(), sizeof(plain));
  const bool known = plain.kind >= static_cast<std::uint16_t>(Kind::message) &&
                     plain.kind <= static_cast<std::uint16_t>(Kind::reduced_request);
  if (plain.magic != kMagic || !known || plain.status >= kStatuses || plain.reserved != 0) {
    return std::nullopt;
  }
  if (plain.bytes > kMaxChunkBytes || plain.offset > std::numeric_limits<std::uint64_t>::max() - plain.bytes) {
    return std::nullopt;
  }
  Header header;
  header.kind = static_cast<Kind>(plain.kind);
  header.status = plain.status;
  header.from = SpId{plain.from};
  header.move = plain.move;
  header.offset = plain.offset;
  header.bytes = plain.bytes;
  header.memory = MemoryRef{WorldRank{plain.owner}, RegionId{plain.region}, plain.address};
  return header;
}

EncodedShown encode_shown(const EncodedHeader& header, const Token& token) {
  EncodedShown bytes;
  std::memcpy(bytes.data(), header.data(), header.size());
  std::memcpy(bytes.data() + header.size(), token.data(), token.size());
  return bytes;
}

std::optional<Shown> decode_shown(std::span<const std::byte> bytes) {
  if (bytes.size() != kShownBytes) return std::nullopt;
  const std::optional<Header> header = decode_wire(bytes.first(kHeaderBytes));
  if (!header) return std::nullopt;
  Shown shown{*header, {}};
  std::memcpy(shown.token.data(), bytes.data() + kHeaderBytes, sizeof(Token));
  return shown;
}

bool same_token(const Token& left, const Token& right) {
  std::array<std::uint64_t, 2> a{};
  std::array<std::uint64_t, 2> b{};
  static_assert(sizeof(a) == sizeof(Token));
  std::memcpy(a.data(), left.data(), sizeof(a));
  std::memcpy(b.data(), right.data(), sizeof(b));
  return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

void append_framed(std::vector<std::byte>& batch, const EncodedHeader& header, std::span<const std::byte> payload) {
  append(batch, static_cast<std::uint32_t>(payload.size()));
  append_bytes(batch, header);
  append_bytes(batch, payload);
}

std::optional<Framed> next_framed(std::span<const std::byte>& rest) {
  std::uint32_t length = 0;
  if (rest.size() < kFrameBytes) return std::nullopt;
  std::memcpy(&length, rest.data(), sizeof(length));
  const std::optional<Header> header = decode_wire(rest.subspan(sizeof(length), kHeaderBytes));
  const std::span<const std::byte> payload = rest.subspan(kFrameBytes);
  if (!header || header->kind == Kind::batch || length > payload.size()) return std::nullopt;
  rest = payload.subspan(length);
  return Framed{*header, payload.first(length)};
}

EncodedBlockId encode_block_id(const BlockId& id) {
  PlainBlockId plain;
  plain.group_high = id.operation.group.high;
  plain.group_low = id.operation.group.low;
  plain.sequence = id.operation.sequence;
  plain.source = id.source.value();
  plain.destination = id.destination.value();
  EncodedBlockId bytes;
  std::memcpy(bytes.data(), &plain, sizeof(plain));
  return bytes;
}

std::optional<BlockId> decode_block_id(std::span<const std::byte> bytes) {
  PlainBlockId plain;
  if (!take(bytes, plain)) return std::nullopt;
  BlockId id;
  id.operation = OperationId{GroupId{plain.group_high, plain.group_low}, plain.sequence};
  id.source = GroupRank{plain.source};
  id.destination = GroupRank{plain.destination};
  return id;
}

void encode_operands(const OtherOperands& operands, std::vector<std::byte>& out) {
  assert(!operands.others.empty() && operands.others.size() <= kMaxOtherOperands);
  PlainOperands plain;
  plain.operation = static_cast<std::uint8_t>(operands.reduction.operation);
  plain.type = static_cast<std::uint8_t>(operands.reduction.type);
  plain.others = static_cast<std::uint16_t>(operands.others.size());
  append(out, plain);
  for (const MemoryRef& other : operands.others) {
    append(out, PlainOperand{other.owner.value(), other.region.value(), other.address});
  }
}

std::optional<OtherOperands> decode_operands(std::span<const std::byte> bytes) {
  PlainOperands plain;
  if (!take(bytes, plain)) return std::nullopt;
  const std::optional<Reduction> reduction = decode_reduction(plain.operation, plain.type);
  if (!reduction || plain.reserved != 0 || plain.others == 0 || plain.others > kMaxOtherOperands) return std::nullopt;
  if (bytes.size() != plain.others * sizeof(PlainOperand)) return std::nullopt;
  OtherOperands operands{*reduction, {}};
  operands.others.reserve(plain.others);
  for (PlainOperand other; take(bytes, other);) {
    operands.others.push_back(MemoryRef{WorldRank{other.owner}, RegionId{other.region}, other.address});
  }
  return operands;
}

}  // namespace outrigger::wire
