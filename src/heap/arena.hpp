// jemalloc on the addresses of the shared heap: an arena whose extents come from AddressSpace. jemalloc's metadata are
// elsewhere, in private memory.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>

#include "protocol/shared/shared_heap.hpp"

namespace outrigger::heap {

// Smaller allocations go to the C library: sharing them would not pay.
inline constexpr std::size_t kLeastBytes = 64UL << 10;

// True if the heap owns the allocation. Cheap.
[[nodiscard]] bool in_heap(const void* memory);

// nullptr: not possible here. `alignment`: a power of two, or 0.
[[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, bool zeroed);
// The following are for allocations of the heap.
void release(void* memory);
// In place or elsewhere in the heap; nullptr on failure, with `memory` unchanged.
[[nodiscard]] void* resize(void* memory, std::size_t bytes);
[[nodiscard]] std::size_t usable_bytes(const void* memory);

[[nodiscard]] const SharedHeap* shared_heap();

}  // namespace outrigger::heap
