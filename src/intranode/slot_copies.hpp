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
  copy_short(to.data(), slot, to.size());
}
// Within the member's own memory.
inline void copy_own(std::span<std::byte> to, const std::byte* from) {
  if (!to.empty() && to.data() != from) copy_short(to.data(), from, to.size());
}

// As much as there is, where lengths have been checked.
inline void copy_own(std::span<std::byte> to, std::span<const std::byte> from) {
  copy_own(to.first(std::min(to.size(), from.size())), from.data());
}

// The part of a block that goes into one step: `most` bytes from `done` on, fewer at its end and none beyond.
template <class Byte>
[[nodiscard]] inline std::span<Byte> piece_of(std::span<Byte> block, std::uint64_t done, std::size_t most) {
  if (done == 0 && block.size() <= most) [[likely]]
    return block;
  const std::uint64_t from = std::min<std::uint64_t>(done, block.size());
  return block.subspan(from, std::min<std::uint64_t>(most, block.size() - from));
}

// Steps that blocks of `bytes` take in pieces of `most`; never none.
[[nodiscard]] inline std::uint64_t steps_of(std::uint64_t bytes, std::size_t most) {
  return bytes <= most ? 1 : (bytes - 1) / most + 1;
}

// A slot that has a cell for each other member: `bytes`, whole elements.
class Cells {
 public:
  Cells(std::uint32_t members, std::uint64_t largest, std::uint32_t element_bytes = 1)
      : Cells(members, largest, element_bytes, 0) {}
  // For blocks of any lengths. The length of a block goes before the cell.
  [[nodiscard]] static Cells with_lengths(std::uint32_t members) { return {members, kSlotBytes, kBefore, kBefore}; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t all() const { return (bytes_ + before_) * others_; }
  // The cell for `reader` in the slot of `owner`.
  [[nodiscard]] std::byte* in(std::byte* slot, std::uint32_t owner, std::uint32_t reader) const {
    return slot + (reader < owner ? reader : reader - 1) * (bytes_ + before_) + before_;
  }
  static void set_length(std::byte* cell, std::uint64_t length) {
    std::byte* before = cell - sizeof length;
    steps::writes(before, sizeof length);
    std::memcpy(before, &length, sizeof length);
  }
  [[nodiscard]] static std::uint64_t length(const std::byte* cell) {
    std::uint64_t length = 0;
    steps::reads(cell - sizeof length, sizeof length);
    std::memcpy(&length, cell - sizeof length, sizeof length);
    return length;
  }

 private:
  // A cache line, so that cells begin with one: copies to other addresses take up to twice as long.
  static constexpr std::size_t kBefore = kSlotBytes / kMostMembers >= 128 ? 64 : sizeof(std::uint64_t);

  Cells(std::uint32_t members, std::uint64_t largest, std::size_t element_bytes, std::size_t before)
      : others_(std::max(members, 2U) - 1), before_(before), bytes_(std::uint32_t{kSlotBytes} / others_) {
    if (before_ != 0) bytes_ = bytes_ / before_ * before_ - before_;
    if (largest < bytes_) bytes_ = largest;  // close together: fewer cache lines
    if (element_bytes != 1) bytes_ -= bytes_ % element_bytes;
  }

  std::uint32_t others_;
  std::size_t before_;
  std::size_t bytes_;
};

}  // namespace outrigger::intranode
