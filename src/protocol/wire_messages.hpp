// What stands before everything that service processes of different nodes send each other. Fixed width, little-endian,
// checked by decode_wire() before anything uses it.
//
//   message   an engine's message (peer_messages.hpp) follows
//   request   "send me these bytes of your rank's memory as chunk `offset` of my move"     -> data
//   data      the bytes of a request follow, or none and a status that is not ok
//   push      bytes for your rank's memory follow: chunk `offset` of my move                -> stored
//   stored    what has become of a push
//   ping      -> pong
//   bye       the sender ends, as it should
//
// Plain values; safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocol/control.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"

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
};

// No chunk is longer.
inline constexpr std::uint64_t kMaxChunkBytes = 1U << 20;

struct Header {
  Kind kind = Kind::message;
  std::uint16_t status = 0;  // fabric::MoveStatus, of data and stored
  SpId from;                 // the sender
  Secret secret{};           // the job's
  std::uint64_t move = 0;    // of whoever began it
  std::uint64_t offset = 0;  // of the chunk within the move
  std::uint64_t bytes = 0;   // of the chunk
  MemoryRef memory;          // of the chunk: request: to be read; push: to be written
};

inline constexpr std::size_t kHeaderBytes = 80;
using EncodedHeader = std::array<std::byte, kHeaderBytes>;

[[nodiscard]] EncodedHeader encode_wire(const Header& header);
// Nothing for anything that encode_wire() would not have written.
[[nodiscard]] std::optional<Header> decode_wire(std::span<const std::byte> bytes);

}  // namespace outrigger::wire
