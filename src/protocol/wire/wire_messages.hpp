// Headers of all messages between service processes of different nodes. Their Reader checks
// every field.
//
//   message   an engine's message (peer_messages.hpp) follows
//   request   asks for bytes of the receiver's rank as chunk `offset` of the sender's move      -> data
//   reduced_request  the same for several ranks' memory, reduced: the reduction and the other operands follow -> data
//   data      the bytes of a request follow, or none and a status that is not ok
//   push      bytes for the memory of the receiver's rank follow: chunk `offset` of the sender's move -> stored
//   stored    the result of a push
//   eager     the first `bytes` of a block will come without a request, as the sender's block `offset`: the block's
//             name follows, and the bytes themselves if they are few. In the order of messages
//   eager_chunk  bytes of such a block follow; or none and a status, and the block ends
//   batch     several short messages follow, each with its header, as a Framed; of chunks only eager ones
//   ping      -> pong
//   bye       the sender ends: in order, or, with a status that is not ok, because it has lost its node
//
// Before the first of these, two service processes complete a handshake (proof/handshake.hpp). It gives both a token
// for each direction. Each message shows it once, however many a batch has.
//
// Plain values; safe from any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger::wire {

enum class Kind : std::uint16_t {
  message = 1,
  request = 2,
  data = 3,
  push = 4,
  stored = 5,
  ping = 6,
  pong = 7,
  bye = 8,
  eager = 9,
  eager_chunk = 10,
  batch = 11,
  reduced_request = 12,
};

inline constexpr std::uint64_t kMaxChunkBytes = 1U << 20;
inline constexpr std::uint32_t kMagic = 0x4F525734;  // "ORW4"
inline constexpr std::uint16_t kStatuses = 3;        // of fabric::MoveStatus

struct Header {
  Kind kind = Kind::message;
  std::uint16_t status = 0;  // fabric::MoveStatus, of data, stored, eager_chunk and bye
  SpId from;                 // the sender
  // number at the side that began it; message, eager: sequence number; eager_chunk: the sender's block
  std::uint64_t move = 0;
  std::uint64_t offset = 0;  // of the chunk within the move or block; eager: the sender's number for the block
  std::uint64_t bytes = 0;   // of the chunk
  MemoryRef memory;          // of the chunk: request: to be read, reduced_request: first; push: to be written
  static constexpr void fields(auto& io, auto& header) {
    io.constant(kMagic);
    io.code(header.kind, Kind::message, Kind::reduced_request);
    io.value(header.status, header.from, header.move, header.offset, header.bytes, header.memory);
    io.require(header.status < kStatuses && header.bytes <= kMaxChunkBytes);
    io.require(header.offset <= std::numeric_limits<std::uint64_t>::max() - header.bytes);
  }
};

// Token that proves that a message comes from the peer of the handshake.
using Token = std::array<std::uint8_t, 16>;

// In front of a message or a batch.
struct Shown {
  Header header;
  Token token{};
  static constexpr void fields(auto& io, auto& shown) { io.value(shown.header, shown.token); }
};

// Compares in constant time.
[[nodiscard]] constexpr bool same_token(const Token& left, const Token& right) {
  using Halves = std::array<std::uint64_t, 2>;
  const auto a = std::bit_cast<Halves>(left);
  const auto b = std::bit_cast<Halves>(right);
  return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

// A message of a batch.
struct Framed {
  Header header;
  std::span<const std::byte> payload;
  static constexpr void fields(auto& io, auto& framed) {
    io.value(framed.header);
    io.require(framed.header.kind != Kind::batch);
    io.list(framed.payload, std::numeric_limits<std::uint32_t>::max());
  }
};

// Follows a reduced_request: all operands after the first, each of the chunk's length.
inline constexpr std::size_t kMaxOtherOperands = 127;
struct OtherOperands {
  Reduction reduction;
  std::vector<MemoryRef> others;
  bool operator==(const OtherOperands&) const = default;
  static constexpr void fields(auto& io, auto& operands) {
    io.code(operands.reduction.operation);
    io.code(operands.reduction.type);
    io.require(is_reduction(operands.reduction));
    io.list(operands.others, kMaxOtherOperands);
    io.require(!operands.others.empty());
  }
};

}  // namespace outrigger::wire
