// Keys and exported memory handles as a rank announces them, and the memory on which the latter are tried.
//
// An exported handle lets a network card that a host and its DPU share use the host's memory as if it were the DPU's
// (cross-GVMI, alias memory keys: Graham et al. 2024, II.C). Both are UCX's, packed, and mean nothing here.
//
// Plain values; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocol/shared/segment.hpp"

namespace outrigger {

// The least that is read into a rank's memory by an exported handle. UCX copies what a network returns within a
// completion (tens of bytes), and no processor of the DPU can copy to there.
inline constexpr std::uint64_t kLeastAliasBytes = 1024;

// Memory of a rank on which each service process tries its exported handle before it relies on others. Of each, by its
// number on the DPU: what is read, then where to.
inline constexpr std::uint64_t kExportTrialBytes = std::uint64_t{kMaxServices} * 2 * kLeastAliasBytes;
[[nodiscard]] constexpr std::uint64_t trial_source_offset(std::uint32_t sp) {
  return std::uint64_t{sp} * 2 * kLeastAliasBytes;
}
[[nodiscard]] constexpr std::uint64_t trial_target_offset(std::uint32_t sp) {
  return trial_source_offset(sp) + kLeastAliasBytes;
}

struct PackedKeys {
  std::span<const std::byte> key;
  std::span<const std::byte> exported;  // empty: none
};

// Into the entry, but for which memory it is. An exported handle for which there is no room is left out. False: there
// is none for the key, or it is empty; the entry is as it was.
[[nodiscard]] bool pack_keys(const PackedKeys& keys, KeyEntry& entry);

// Views of the entry. Nothing: the entry says what cannot be.
[[nodiscard]] std::optional<PackedKeys> keys_of(const KeyEntry& entry);

}  // namespace outrigger
