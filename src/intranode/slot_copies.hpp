// Copies into and out of slots.
#pragma once

#include <cstddef>
#include <cstring>

#include "intranode/flag.hpp"

namespace outrigger::intranode {

inline void copy_in(std::byte* slot, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  steps::writes(slot, bytes);
  std::memcpy(slot, from, bytes);
}
inline void copy_out(std::byte* to, const std::byte* slot, std::size_t bytes) {
  if (bytes == 0) return;
  steps::reads(slot, bytes);
  std::memcpy(to, slot, bytes);
}

}  // namespace outrigger::intranode
