#include "intranode/slot_writer.hpp"

#include <algorithm>

#include "base/tick_clock.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace outrigger::intranode {
namespace {

constexpr std::size_t kCacheLine = 64;
// Shorter copies do not show it: the store buffer takes them.
constexpr std::size_t kMeasured = 8192;
constexpr std::int64_t kSlowNsPerLine = 10;
constexpr std::uint32_t kMostStreams = 1024;

#if defined(__x86_64__)
// Whole lines. With narrower stores it takes half as long again.
[[gnu::target("avx2")]] void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kCacheLine) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + kCacheLine / 2));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + kCacheLine / 2), high);
  }
  _mm_sfence();
}
bool can_stream() {
  static const bool can = __builtin_cpu_supports("avx2") != 0;
  return can;
}
#else
void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
bool can_stream() {
  return false;
}
#endif

}  // namespace

void copy_some(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void stream_into(std::byte* to, std::span<const std::byte> from) {
  const std::size_t head = (kCacheLine - reinterpret_cast<std::uintptr_t>(to) % kCacheLine) % kCacheLine;
  const std::size_t lines = (from.size() - head) / kCacheLine * kCacheLine;
  std::memcpy(to, from.data(), head);
  std::memcpy(to + head + lines, from.data() + head + lines, from.size() - head - lines);
  stream_lines(to + head, from.data() + head, lines);
}

void SlotWriter::copy_long(std::byte* slot, std::span<const std::byte> from) {
  if (streams_ > 0) {
    --streams_;
    return stream_into(slot, from);
  }
  if (from.size() < kMeasured || !can_stream()) {
    std::memcpy(slot, from.data(), from.size());
    return;
  }
  const std::int64_t start = TickClock::now_ns();
  std::memcpy(slot, from.data(), from.size());
  const std::int64_t took = TickClock::now_ns() - start;
  if (took * static_cast<std::int64_t>(kCacheLine) < kSlowNsPerLine * static_cast<std::int64_t>(from.size())) {
    next_streams_ = 64;
    return;
  }
  streams_ = next_streams_;
  next_streams_ = std::min(2 * next_streams_, kMostStreams);
}

}  // namespace outrigger::intranode
