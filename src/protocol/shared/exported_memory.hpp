// Keys and exported memory handles that a rank announces, and the memory for the trial of handles.
//
// With an exported handle, a network card that a host and its DPU share can use the host's memory like the DPU's
// (cross-GVMI, alias memory keys: Graham et al. 2024, II.C). Both are packed by UCX and opaque here.
//
// Plain values; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocol/shared/segment.hpp"

namespace outrigger {

// Minimum size of reads into a rank's memory by an exported handle. UCX itself copies data that a network returns with
// a completion (tens of bytes), and the DPU's processor cannot write there.
inline constexpr std::uint64_t kLeastAliasBytes = 1024;

// A rank's memory in which each service process tries the exported handle first. For each, by its number on the DPU: a
// source, then a destination.
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

// Stores the keys in the entry, not the range. Leaves out an exported handle that does not fit. False: the key is empty
// or does not fit; the entry is unchanged.
[[nodiscard]] bool pack_keys(const PackedKeys& keys, KeyEntry& entry);

// Views of the entry; nullopt if it is invalid.
[[nodiscard]] std::optional<PackedKeys> keys_of(const KeyEntry& entry);

}  // namespace outrigger
