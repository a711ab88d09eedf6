#include "fabric/host/lanes/direct.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace outrigger::fabric {
namespace {

#if defined(__SSE2__)

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kVectors = kLineBytes / sizeof(__m128i);

// Copies whole cache lines to an aligned address.
void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kLineBytes) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* destination = reinterpret_cast<__m128i*>(to + at);
    __m128i line[kVectors];
    for (std::size_t i = 0; i < kVectors; ++i) line[i] = _mm_loadu_si128(source + i);
    for (std::size_t i = 0; i < kVectors; ++i) _mm_stream_si128(destination + i, line[i]);
  }
  _mm_sfence();  // such stores are not ordered before the marks that follow
}

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t past_line = reinterpret_cast<std::uintptr_t>(to) % kLineBytes;
  const std::size_t head = past_line == 0 ? 0 : kLineBytes - past_line;
  if (bytes < head + kLineBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::size_t lines = (bytes - head) / kLineBytes * kLineBytes;
  std::memcpy(to, from, head);
  stream_lines(to + head, from + head, lines);
  std::memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}

#else

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace

void copy_bytes(CopyKernel kernel, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (kernel == CopyKernel::streaming) return stream(to, from, bytes);
  std::memcpy(to, from, bytes);
}

void copy_direct(CopyKernel kernel, std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto distance = static_cast<std::size_t>(to < from ? from - to : to - from);
  if (distance < bytes) {
    std::memmove(to, from, bytes);
  } else {
    copy_bytes(kernel, to, from, bytes);
  }
}

}  // namespace outrigger::fabric
