// Where the pieces of a step's contributions are: the member's own in its memory, the others' in slots.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "intranode/combine.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {

class Contributions {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only what has been added is read
  Contributions(std::uint32_t own_rank, const std::byte* own) { at_[own_rank] = own; }
  // `bytes` at `slot`.
  void add(std::uint32_t other, const std::byte* slot, std::size_t bytes) {
    steps::reads(slot, bytes);
    at_[other] = slot;
  }
  void combine_into(std::span<std::byte> into, const Combine& combine, std::uint64_t done_bytes) const {
    combine.apply(at_, into.data(), combine.elements_in(done_bytes), combine.elements_in(into.size()));
  }

 private:
  std::array<const std::byte*, kMostMembers> at_;
};

// Bytes of whole elements that fit into a slot.
[[nodiscard]] inline std::size_t slot_elements(const Combine& combine) {
  return combine.elements_in(kSlotBytes) * combine.element_bytes();
}

}  // namespace outrigger::intranode
