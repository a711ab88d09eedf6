#include "protocol/shared/byte_ring.hpp"

#include <algorithm>
#include <cstring>

namespace outrigger {
namespace {

constexpr std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + 7) & ~std::uint64_t{7};
}
constexpr std::uint64_t kLengthBytes = sizeof(std::uint32_t);

ByteRingHeader* header_of(std::byte* memory) {
  return reinterpret_cast<ByteRingHeader*>(memory);
}

}  // namespace

void initialize_byte_ring(std::byte* memory) {
  header_of(memory)->magic = kByteRingMagic;
  header_of(memory)->capacity = kByteRingCapacity;
}

bool valid_byte_ring(const std::byte* memory) {
  const auto* header = reinterpret_cast<const ByteRingHeader*>(memory);
  return header->magic == kByteRingMagic && header->capacity == kByteRingCapacity;
}

ByteRingWriter::ByteRingWriter(std::byte* memory)
    : header_(header_of(memory)),
      data_(memory + kByteRingDataOffset),
      tail_(header_->tail.load(std::memory_order_relaxed)),
      seen_head_(header_->head.load(std::memory_order_acquire)) {}

bool ByteRingWriter::write(std::span<const std::byte> message) {
  if (message.size() > kByteRingMaxMessage) return false;
  const std::uint64_t needed = padded(kLengthBytes + message.size());
  // A head outside [tail - capacity, tail] is invalid and counts as full.
  const auto fits = [&] {
    const std::uint64_t used = tail_ - seen_head_;
    return used <= kByteRingCapacity && needed <= kByteRingCapacity - used;
  };
  if (!fits()) {
    seen_head_ = header_->head.load(std::memory_order_acquire);
    if (!fits()) return false;
  }
  const auto length = static_cast<std::uint32_t>(message.size());
  put(tail_, &length, sizeof(length));
  put(tail_ + kLengthBytes, message.data(), message.size());
  tail_ += needed;
  header_->tail.store(tail_, std::memory_order_seq_cst);
  return true;
}

bool ByteRingWriter::reader_sleeps() const {
  return header_->reader_sleeping.load(std::memory_order_seq_cst) != 0;
}

bool ByteRingWriter::reader_is_here() const {
  return header_->reader_here.load(std::memory_order_acquire) != 0;
}

void ByteRingWriter::put(std::uint64_t position, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t offset = position % kByteRingCapacity;
  const std::size_t first = std::min<std::size_t>(bytes, kByteRingCapacity - offset);
  std::memcpy(data_ + offset, from, first);
  if (first < bytes) std::memcpy(data_, static_cast<const std::byte*>(from) + first, bytes - first);
}

ByteRingReader::ByteRingReader(std::byte* memory)
    : header_(header_of(memory)),
      data_(memory + kByteRingDataOffset),
      head_(header_->head.load(std::memory_order_relaxed)) {
  header_->reader_here.store(1, std::memory_order_release);
}

ByteRingReader::Event ByteRingReader::read(std::vector<std::byte>& message) {
  if (broken_) return Event::broken;
  const std::uint64_t available = header_->tail.load(std::memory_order_acquire) - head_;
  if (available == 0) return Event::empty;
  std::uint32_t length = 0;
  if (available >= kLengthBytes && available <= kByteRingCapacity) get(head_, &length, sizeof(length));
  const std::uint64_t record = padded(kLengthBytes + std::uint64_t{length});
  if (available < kLengthBytes || available > kByteRingCapacity || length > kByteRingMaxMessage || record > available) {
    broken_ = true;
    return Event::broken;
  }
  message.resize(length);
  get(head_ + kLengthBytes, message.data(), length);
  head_ += record;
  header_->head.store(head_, std::memory_order_release);
  return Event::message;
}

bool ByteRingReader::empty() const {
  return header_->tail.load(std::memory_order_seq_cst) == head_;
}

void ByteRingReader::set_sleeping(bool sleeping) {
  header_->reader_sleeping.store(sleeping ? 1 : 0, std::memory_order_seq_cst);
}

void ByteRingReader::get(std::uint64_t position, void* to, std::size_t bytes) const {
  if (bytes == 0) return;
  const std::size_t offset = position % kByteRingCapacity;
  const std::size_t first = std::min<std::size_t>(bytes, kByteRingCapacity - offset);
  std::memcpy(to, data_ + offset, first);
  if (first < bytes) std::memcpy(static_cast<std::byte*>(to) + first, data_, bytes - first);
}

}  // namespace outrigger
