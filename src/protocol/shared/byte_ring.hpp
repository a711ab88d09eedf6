// A single-producer, single-consumer ring of messages between two service processes of a node, in shared memory.
//
//   +--------+-------------------------------------------------+
//   | header | data: [u32 length][payload][pad to 8] ...  wraps |
//   +--------+-------------------------------------------------+
//
// Positions count bytes ever written or read. Each side keeps its own position privately and only publishes it; what
// the other side publishes is checked before use, so a broken peer can garble messages but never make this side read
// or write outside the ring.
//
// The writer wakes the reader (by a doorbell that is not part of the ring) only when the reader has said that it
// sleeps. Store and load on both sides are sequentially consistent, so a message is never missed: either the reader
// sees it when it looks once more before sleeping, or the writer sees that the reader sleeps.
//
// Thread rule: one thread writes, one reads. Neither ever blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace outrigger {

inline constexpr std::uint32_t kByteRingMagic = 0x52425554;
inline constexpr std::uint32_t kByteRingCapacity = 128U << 10;               // bytes of data; power of two
inline constexpr std::uint32_t kByteRingMaxMessage = kByteRingCapacity / 2;  // larger messages are refused

struct alignas(64) ByteRingHeader {
  std::uint32_t magic = 0;
  std::uint32_t capacity = 0;
  alignas(64) std::atomic<std::uint64_t> tail;  // bytes ever written; by the writer
  alignas(64) std::atomic<std::uint64_t> head;  // bytes ever read; by the reader
  std::atomic<std::uint32_t> reader_sleeping;   // by the reader
  std::atomic<std::uint32_t> reader_here;       // not 0: the reader has it
};

[[nodiscard]] constexpr std::uint64_t byte_ring_bytes() {
  return 4096 + kByteRingCapacity;
}
inline constexpr std::size_t kByteRingDataOffset = 4096;
static_assert(sizeof(ByteRingHeader) <= kByteRingDataOffset);

// Writes the constants into fresh, zeroed memory of byte_ring_bytes().
void initialize_byte_ring(std::byte* memory);
[[nodiscard]] bool valid_byte_ring(const std::byte* memory);

// Owns nothing: the mapping must outlive it.
class ByteRingWriter {
 public:
  explicit ByteRingWriter(std::byte* memory);
  // False: no room now. Messages above kByteRingMaxMessage never fit.
  [[nodiscard]] bool write(std::span<const std::byte> message);
  // After a write: must the reader be woken?
  [[nodiscard]] bool reader_sleeps() const;
  // Does the reader have the ring, and with that nothing more of one before it?
  [[nodiscard]] bool reader_is_here() const;

 private:
  void put(std::uint64_t position, const void* from, std::size_t bytes);
  ByteRingHeader* header_;
  std::byte* data_;
  std::uint64_t tail_;
  std::uint64_t seen_head_;
};

class ByteRingReader {
 public:
  enum class Event { message, empty, broken };

  explicit ByteRingReader(std::byte* memory);
  // Copies the next message into `message` (its capacity is reused). `broken`: the writer has written nonsense; every
  // later call says so too.
  [[nodiscard]] Event read(std::vector<std::byte>& message);
  [[nodiscard]] bool empty() const;
  // Before sleeping: set it, then look at empty() once more.
  void set_sleeping(bool sleeping);

 private:
  void get(std::uint64_t position, void* to, std::size_t bytes) const;
  ByteRingHeader* header_;
  std::byte* data_;
  std::uint64_t head_;
  bool broken_ = false;
};

}  // namespace outrigger
