// Headers of all messages between service processes of different nodes. Fixed width, little-endian, checked by
// decode_wire() before use.
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
//   batch     several short messages follow, each with its header, as append_framed() writes them
//   ping      -> pong
//   bye       the sender ends: in order, or, with a status that is not ok, because it has lost its node
//
// Before the first of these, two service processes complete a handshake (proof/handshake.hpp). It gives both a token
// for each direction. Each message shows it once, however many a batch has.
//
// Plain values; safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"

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

struct Header {
  Kind kind = Kind::message;
  std::uint16_t status = 0;  // fabric::MoveStatus, of data, stored, eager_chunk and bye
  SpId from;                 // the sender
  // number at the side that began it; message, eager: sequence number; eager_chunk: the sender's block
  std::uint64_t move = 0;
  std::uint64_t offset = 0;  // of the chunk within the move or block; eager: the sender's number for the block
  std::uint64_t bytes = 0;   // of the chunk
  MemoryRef memory;          // of the chunk: request: to be read, reduced_request: first; push: to be written
};

inline constexpr std::size_t kHeaderBytes = 56;
using EncodedHeader = std::array<std::byte, kHeaderBytes>;

[[nodiscard]] EncodedHeader encode_wire(const Header& header);
// nullopt for bytes that encode_wire() would not have written.
[[nodiscard]] std::optional<Header> decode_wire(std::span<const std::byte> bytes);

// Token that proves that a message comes from the peer of the handshake.
using Token = std::array<std::uint8_t, 16>;

// In front of a message or a batch: the header, then the token.
inline constexpr std::size_t kShownBytes = kHeaderBytes + sizeof(Token);
using EncodedShown = std::array<std::byte, kShownBytes>;
struct Shown {
  Header header;
  Token token{};
};
[[nodiscard]] EncodedShown encode_shown(const EncodedHeader& header, const Token& token);
[[nodiscard]] std::optional<Shown> decode_shown(std::span<const std::byte> bytes);
// Compares in constant time.
[[nodiscard]] bool same_token(const Token& left, const Token& right);

// A message of a batch.
struct Framed {
  Header header;
  std::span<const std::byte> payload;
};
inline constexpr std::size_t kFrameBytes = sizeof(std::uint32_t) + kHeaderBytes;  // before each payload

void append_framed(std::vector<std::byte>& batch, const EncodedHeader& header, std::span<const std::byte> payload);
// Removes the next message from `rest`. nullopt if no valid message begins there.
[[nodiscard]] std::optional<Framed> next_framed(std::span<const std::byte>& rest);

inline constexpr std::size_t kBlockIdBytes = 32;
using EncodedBlockId = std::array<std::byte, kBlockIdBytes>;

[[nodiscard]] EncodedBlockId encode_block_id(const BlockId& id);
// From the first bytes; nullopt if there are too few.
[[nodiscard]] std::optional<BlockId> decode_block_id(std::span<const std::byte> bytes);

// Follows a reduced_request: all operands after the first, each of the chunk's length.
struct OtherOperands {
  Reduction reduction;
  std::vector<MemoryRef> others;
  bool operator==(const OtherOperands&) const = default;
};
inline constexpr std::size_t kMaxOtherOperands = 127;

// At most kMaxOtherOperands.
void encode_operands(const OtherOperands& operands, std::vector<std::byte>& out);
// nullopt for bytes that encode_operands() would not have written.
[[nodiscard]] std::optional<OtherOperands> decode_operands(std::span<const std::byte> bytes);

}  // namespace outrigger::wire
