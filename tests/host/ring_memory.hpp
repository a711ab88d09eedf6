// Ordinary memory in the shape of a ring, for tests.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "protocol/shared/byte_ring.hpp"

namespace outrigger::testing {

class RingMemory {
 public:
  RingMemory() : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, byte_ring_bytes()))) {
    std::memset(memory_, 0, byte_ring_bytes());
    initialize_byte_ring(memory_);
  }
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;
  ~RingMemory() { std::free(memory_); }
  [[nodiscard]] std::byte* data() const { return memory_; }
  [[nodiscard]] ByteRingHeader& header() const { return *reinterpret_cast<ByteRingHeader*>(memory_); }

 private:
  std::byte* memory_;
};

}  // namespace outrigger::testing
