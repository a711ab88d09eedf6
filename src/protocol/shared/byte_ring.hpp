// A single-producer, single-consumer ring of messages between two service processes of a node, in shared memory.
//
//   +--------+-------------------------------------------------+
//   | header | data: [u32 length][payload][pad to 8] ...  wraps |
//   +--------+-------------------------------------------------+
//
// Positions count bytes ever written or read. Each side keeps its own position privately and publishes it. It checks
// the other side's value before use, so a broken peer may garble messages but cannot cause an access outside the ring.
//
// The writer wakes the reader, by a separate doorbell, only if the reader has announced that it sleeps. Both sides
// store and load with sequential consistency, so no message is missed: either the reader finds it in its last check, or
// the writer finds the reader asleep.
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
inline constexpr std::uint32_t kByteRingMaxMessage = kByteRingCapacity / 2;  // larger messages are rejected

struct alignas(64) ByteRingHeader {
  std::uint32_t magic = 0;
  std::uint32_t capacity = 0;
  alignas(64) std::atomic<std::uint64_t> tail;  // bytes ever written; by the writer
  alignas(64) std::atomic<std::uint64_t> head;  // bytes ever read; by the reader
  std::atomic<std::uint32_t> reader_sleeping;   // by the reader
  std::atomic<std::uint32_t> reader_here;       // not 0: the reader has the ring
};

[[nodiscard]] constexpr std::uint64_t byte_ring_bytes() {
  return 4096 + kByteRingCapacity;
}
inline constexpr std::size_t kByteRingDataOffset = 4096;
static_assert(sizeof(ByteRingHeader) <= kByteRingDataOffset);

// Writes the constants into zeroed memory of byte_ring_bytes().
void initialize_byte_ring(std::byte* memory);
[[nodiscard]] bool valid_byte_ring(const std::byte* memory);

// Owns nothing: the mapping must outlive it.
class ByteRingWriter {
 public:
  explicit ByteRingWriter(std::byte* memory);
  // False: no room now. Messages above kByteRingMaxMessage never fit.
  [[nodiscard]] bool write(std::span<const std::byte> message);
  // Called after a write: true if the reader must be woken.
  [[nodiscard]] bool reader_sleeps() const;
  // True if the reader uses this ring, and so has dropped former ones.
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
  // Copies the next message into `message` (its capacity is reused). `broken`: the writer has written invalid data;
  // permanent.
  [[nodiscard]] Event read(std::vector<std::byte>& message);
  [[nodiscard]] bool empty() const;
  // Before sleeping: set it, then check empty() once more.
  void set_sleeping(bool sleeping);

 private:
  void get(std::uint64_t position, void* to, std::size_t bytes) const;
  ByteRingHeader* header_;
  std::byte* data_;
  std::uint64_t head_;
  bool broken_ = false;
};

}  // namespace outrigger
