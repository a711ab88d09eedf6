#include "protocol/wire_messages.hpp"

#include <array>
#include <cstring>
#include <limits>

namespace outrigger::wire {
namespace {

constexpr std::uint32_t kMagic = 0x4F525732;  // "ORW2"

// As it stands on the wire.
struct Plain {
  std::uint32_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t status = 0;
  std::uint32_t from = 0;
  std::uint32_t owner = 0;
  Secret secret{};
  std::uint64_t move = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t region = 0;
  std::uint32_t reserved0 = 0;
  std::uint64_t reserved1 = 0;
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

constexpr std::uint16_t kStatuses = 3;  // of fabric::MoveStatus

}  // namespace

EncodedHeader encode_wire(const Header& header) {
  Plain plain;
  plain.kind = static_cast<std::uint16_t>(header.kind);
  plain.status = header.status;
  plain.from = header.from.value();
  plain.owner = header.memory.owner.value();
  plain.secret = header.secret;
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
  const bool known =
      plain.kind >= static_cast<std::uint16_t>(Kind::message) && plain.kind <= static_cast<std::uint16_t>(Kind::batch);
  if (plain.magic != kMagic || !known || plain.status >= kStatuses || plain.reserved0 != 0 || plain.reserved1 != 0) {
    return std::nullopt;
  }
  if (plain.bytes > kMaxChunkBytes || plain.offset > std::numeric_limits<std::uint64_t>::max() - plain.bytes) {
    return std::nullopt;
  }
  Header header;
  header.kind = static_cast<Kind>(plain.kind);
  header.status = plain.status;
  header.from = SpId{plain.from};
  header.secret = plain.secret;
  header.move = plain.move;
  header.offset = plain.offset;
  header.bytes = plain.bytes;
  header.memory = MemoryRef{WorldRank{plain.owner}, RegionId{plain.region}, plain.address};
  return header;
}

void append_framed(std::vector<std::byte>& batch, const EncodedHeader& header, std::span<const std::byte> payload) {
  const auto length = static_cast<std::uint32_t>(payload.size());
  const auto* first = reinterpret_cast<const std::byte*>(&length);
  batch.insert(batch.end(), first, first + sizeof(length));
  batch.insert(batch.end(), header.begin(), header.end());
  batch.insert(batch.end(), payload.begin(), payload.end());
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
  if (bytes.size() < sizeof(plain)) return std::nullopt;
  std::memcpy(&plain, bytes.data(), sizeof(plain));
  BlockId id;
  id.operation = OperationId{GroupId{plain.group_high, plain.group_low}, plain.sequence};
  id.source = GroupRank{plain.source};
  id.destination = GroupRank{plain.destination};
  return id;
}

}  // namespace outrigger::wire
