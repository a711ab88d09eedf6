// Between memory that this process has mapped: one copy.
//
// What fits in the processor's last cache is copied through it: the receiver finds its block there. What is much more
// goes past it (non-temporal stores), which saves the read of every line that is to be overwritten.
// docs/inside/memory.md has the figures of both.
#pragma once

#include <cstddef>

namespace outrigger::fabric {

enum class CopyKernel : unsigned char {
  cached,     // memcpy
  streaming,  // past the caches; the same as `cached` where the processor has no such stores
};

// The ranges do not overlap. Any addresses and sizes.
void copy_bytes(CopyKernel kernel, std::byte* to, const std::byte* from, std::size_t bytes);
// They may: blocks of one rank.
void copy_direct(CopyKernel kernel, std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace outrigger::fabric
