// jemalloc on the addresses of the shared heap: an arena whose extents come from AddressSpace. jemalloc keeps its own
// books elsewhere, in private memory.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>

#include "protocol/shared/shared_heap.hpp"

namespace outrigger::heap {

// Smaller allocations are the C library's: it would not pay to have them shared.
inline constexpr std::size_t kLeastBytes = 64UL << 10;

// Is the allocation the heap's? Cheap.
[[nodiscard]] bool in_heap(const void* memory);

// nullptr: not to be had here. `alignment`: a power of two, or 0.
[[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, bool zeroed);
// What follows is for allocations of the heap.
void release(void* memory);
// In place or elsewhere in the heap; nullptr: neither, and `memory` is as it was.
[[nodiscard]] void* resize(void* memory, std::size_t bytes);
[[nodiscard]] std::size_t usable_bytes(const void* memory);

[[nodiscard]] const SharedHeap* shared_heap();

}  // namespace outrigger::heap
