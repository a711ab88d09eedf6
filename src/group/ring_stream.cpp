#include "group/ring_stream.hpp"

#include <algorithm>
#include <cstring>

#include "base/futex.hpp"

namespace outrigger::group {
namespace {

void into_ring(Ring& ring, std::uint64_t at, std::span<const std::byte> from) {
  if (from.empty()) return;
  const std::size_t place = at % kRingBytes;
  const std::size_t first = std::min(from.size(), kRingBytes - place);
  std::memcpy(ring.bytes.data() + place, from.data(), first);
  if (first < from.size()) std::memcpy(ring.bytes.data(), from.data() + first, from.size() - first);
}

void out_of_ring(const Ring& ring, std::uint64_t at, std::span<std::byte> to) {
  if (to.empty()) return;
  const std::size_t place = at % kRingBytes;
  const std::size_t first = std::min(to.size(), kRingBytes - place);
  std::memcpy(to.data(), ring.bytes.data() + place, first);
  if (first < to.size()) std::memcpy(to.data() + first, ring.bytes.data(), to.size() - first);
}

}  // namespace

std::size_t RingStream::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::uint64_t written = outgoing_.written.load(std::memory_order_relaxed);
  const std::uint64_t room = kRingBytes - (written - outgoing_.read.load(std::memory_order_acquire));
  head = head.first(std::min(room, head.size()));
  body = body.first(std::min(room - head.size(), body.size()));
  const std::size_t bytes = head.size() + body.size();
  if (bytes == 0) return 0;
  into_ring(outgoing_, written, head);
  into_ring(outgoing_, written + head.size(), body);
  outgoing_.written.store(written + bytes, std::memory_order_release);
  ring();
  return bytes;
}

std::size_t RingStream::read(std::span<std::byte> head, std::span<std::byte> body) {
  const std::uint64_t read = incoming_.read.load(std::memory_order_relaxed);
  const std::uint64_t there = incoming_.written.load(std::memory_order_acquire) - read;
  head = head.first(std::min(there, head.size()));
  body = body.first(std::min(there - head.size(), body.size()));
  const std::size_t bytes = head.size() + body.size();
  if (bytes == 0) return 0;
  out_of_ring(incoming_, read, head);
  out_of_ring(incoming_, read + head.size(), body);
  incoming_.read.store(read + bytes, std::memory_order_release);
  ring();
  return bytes;
}

void RingStream::ring() const {
  Doorbell& doorbell = area_.doorbell(other_);
  doorbell.rings.fetch_add(1, std::memory_order_seq_cst);
  if (doorbell.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(doorbell.rings);
}

}  // namespace outrigger::group
