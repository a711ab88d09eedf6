#include "buffers.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace differential {
namespace {
constexpr std::size_t guard_bytes = 192;
constexpr std::ptrdiff_t alignment = 16;

std::ptrdiff_t round_down(std::ptrdiff_t value) {
  return value - (((value % alignment) + alignment) % alignment);
}
}  // namespace

Buffer::Buffer(std::ptrdiff_t low, std::ptrdiff_t high, bool from_mpi, std::size_t skip, std::uint64_t content)
    : from_mpi_(from_mpi) {
  low = round_down(low);
  bytes_ = static_cast<std::size_t>(high - low) + 2 * guard_bytes;
  const std::size_t total = bytes_ + skip;
  if (from_mpi_) {
    MPI_Alloc_mem(static_cast<MPI_Aint>(total), MPI_INFO_NULL, &memory_);
  } else {
    memory_ = static_cast<std::byte*>(std::malloc(total));
  }
  if (memory_ == nullptr) {
    std::fprintf(stderr, "differential: no memory for %zu bytes\n", total);
    std::abort();
  }
  begin_ = memory_ + skip;
  base_ = begin_ + guard_bytes - low;
  fill(content);
}

Buffer::~Buffer() {
  if (memory_ == nullptr) return;
  if (from_mpi_) {
    MPI_Free_mem(memory_);
  } else {
    std::free(memory_);
  }
}

void Buffer::fill(std::uint64_t content) {
  Random random(content);
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes_; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(begin_ + at, &word, sizeof word);
  }
  for (; at < bytes_; ++at) begin_[at] = static_cast<std::byte>(random.next());
}

bool Buffer::untouched(std::uint64_t content) const {
  Random random(content);
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes_; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    if (std::memcmp(begin_ + at, &word, sizeof word) != 0) return false;
  }
  for (; at < bytes_; ++at) {
    if (begin_[at] != static_cast<std::byte>(random.next())) return false;
  }
  return true;
}

std::ptrdiff_t Buffer::first_difference(const Buffer& other) const {
  if (std::memcmp(begin_, other.begin_, bytes_) == 0) return none;
  std::size_t at = 0;
  while (begin_[at] == other.begin_[at]) ++at;
  return begin_ + at - base_;
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  std::swap(base_, other.base_);
  std::swap(from_mpi_, other.from_mpi_);
}

}  // namespace differential
