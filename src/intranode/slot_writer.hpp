// Copies into a slot whose lines other members have in their caches. An ordinary store first fetches its line from
// there: 28 ns a line between cores of a Zen, nothing between threads of a core. Streaming stores fetch nothing, but
// the reader then finds the lines farther away. So the writer measures: where ordinary copies are slow, it streams for
// a while.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "intranode/flag.hpp"

namespace outrigger::intranode {

// By streaming stores, where the processor has them. At least 64 bytes.
void stream_into(std::byte* to, std::span<const std::byte> from);

// memcpy(), for compilers that would use slow instructions (rep movs) where they know the longest length.
[[gnu::noinline]] void copy_some(std::byte* to, const std::byte* from, std::size_t bytes);
// memcpy(), without a call for what a register holds.
inline void copy_short(std::byte* to, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    case 16: std::memcpy(to, from, 16); break;
    default: copy_some(to, from, bytes);
  }
}

class SlotWriter {
 public:
  void copy(std::byte* slot, std::span<const std::byte> from) {
    if (from.empty()) return;
    steps::writes(slot, from.size());
    if (from.size() < kLong) {
      copy_short(slot, from.data(), from.size());
    } else {
      copy_long(slot, from);
    }
  }

 private:
  static constexpr std::size_t kLong = 4096;

  void copy_long(std::byte* slot, std::span<const std::byte> from);

  std::uint32_t streams_ = 0;  // copies to stream before the next measurement
  std::uint32_t next_streams_ = 64;
};

}  // namespace outrigger::intranode
