// Copies out of slots, and the pieces that blocks are copied in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "intranode/meeting.hpp"

namespace outrigger::intranode {

inline void copy_out(std::span<std::byte> to, const std::byte* slot) {
  if (to.empty()) return;
  steps::reads(slot, to.size());
  std::memcpy(to.data(), slot, to.size());
}
// Within the member's own memory.
inline void copy_own(std::span<std::byte> to, const std::byte* from) {
  if (!to.empty() && to.data() != from) std::memcpy(to.data(), from, to.size());
}

// The part of a block that goes into one step: `most` bytes from `done` on, fewer at its end and none beyond.
template <class Byte>
[[nodiscard]] std::span<Byte> piece_of(std::span<Byte> block, std::uint64_t done, std::size_t most) {
  const std::uint64_t from = std::min<std::uint64_t>(done, block.size());
  return block.subspan(from, std::min<std::uint64_t>(most, block.size() - from));
}

// Steps that blocks of `bytes` take in pieces of `most`; never none.
[[nodiscard]] inline std::uint64_t steps_of(std::uint64_t bytes, std::size_t most) {
  return bytes == 0 ? 1 : (bytes - 1) / most + 1;
}

// A slot that has a cell for each other member: `cell` bytes, whole elements.
class Cells {
 public:
  Cells(std::uint32_t members, std::uint64_t largest, std::uint32_t element_bytes = 1)
      : others_(std::max(members, 2U) - 1), bytes_(kSlotBytes / others_) {
    if (largest < bytes_) bytes_ = largest;  // close together: fewer cache lines
    bytes_ -= bytes_ % element_bytes;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t all() const { return bytes_ * others_; }
  // Of `reader`, in the slot of `owner`.
  [[nodiscard]] std::byte* in(std::byte* slot, std::uint32_t owner, std::uint32_t reader) const {
    return slot + (reader < owner ? reader : reader - 1) * bytes_;
  }

 private:
  std::uint32_t others_;
  std::size_t bytes_;
};

}  // namespace outrigger::intranode
