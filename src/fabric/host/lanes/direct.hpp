// Copies between memory that this process has mapped: one copy.
//
// A block that fits in the last-level cache is copied through it, so the receiver finds it there. Much larger blocks
// bypass it (non-temporal stores), which saves reading each line that is overwritten. docs/inside/memory.md has
// measurements of both.
#pragma once

#include <cstddef>

namespace outrigger::fabric {

enum class CopyKernel : unsigned char {
  cached,     // memcpy
  streaming,  // bypasses the caches; the same as `cached` if the processor lacks such stores
};

// The ranges must not overlap. Any addresses and sizes.
void copy_bytes(CopyKernel kernel, std::byte* to, const std::byte* from, std::size_t bytes);
// The ranges may overlap: blocks of one rank.
void copy_direct(CopyKernel kernel, std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace outrigger::fabric
