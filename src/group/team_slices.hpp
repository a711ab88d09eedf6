// Reductions in which each member of a team combines a part of the vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "intranode/combine.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/team.hpp"

namespace outrigger::group {

// Blocks in a row.
struct Row {
  explicit Row(std::vector<std::uint64_t> lengths) : bytes(std::move(lengths)), offsets(bytes.size()) {
    std::exclusive_scan(bytes.begin(), bytes.end(), offsets.begin(), std::uint64_t{0});
  }
  [[nodiscard]] intranode::Blocks at(std::byte* base) const {
    return intranode::Blocks::irregular(base, bytes.data(), offsets.data());
  }
  [[nodiscard]] std::uint64_t total() const { return offsets.back() + bytes.back(); }

  std::vector<std::uint64_t> bytes;
  std::vector<std::uint64_t> offsets;
};

// Bytes of a vector that one round of a reduction combines: this limits the memory of a call.
inline constexpr std::uint64_t kSlicedPiece = std::uint64_t{16} << 20;

// Whole elements, as equal as they can be.
[[nodiscard]] Row slices_of(std::uint64_t elements, std::uint64_t element_bytes, std::uint32_t members);

// Should members read each other's contributions directly? Otherwise they go through slots.
[[nodiscard]] bool is_sliced(const intranode::Team& team, std::uint64_t bytes);

}  // namespace outrigger::group
