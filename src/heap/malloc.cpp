// The malloc family that the program calls: large allocations come from the heap if there is one, all others from the
// next allocator. The address tells where memory came from. C++'s operator new, Fortran's allocate and Python's arrays
// use these functions.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "heap/arena.hpp"
#include "heap/next_malloc.hpp"

namespace outrigger::heap {
namespace {

void* large(std::size_t bytes) {
  void* memory = allocate(bytes, 0, false);
  return memory != nullptr ? memory : next_malloc.allocate(bytes);
}

void* large_aligned(std::size_t alignment, std::size_t bytes) {
  void* memory = std::has_single_bit(alignment) ? allocate(bytes, alignment, false) : nullptr;
  return memory != nullptr ? memory : next_malloc.aligned(alignment, bytes);
}

// From the heap to the next allocator; on failure the memory stays in the heap.
void* move_out(void* memory, std::size_t bytes) {
  void* moved = next_malloc.allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(bytes, usable_bytes(memory)));
  release(memory);
  return moved;
}

void* resize_in_heap(void* memory, std::size_t bytes) {
  if (bytes == 0) {
    release(memory);
    return nullptr;
  }
  if (bytes < kLeastBytes / 2) return move_out(memory, bytes);
  void* resized = resize(memory, bytes);
  return resized != nullptr ? resized : move_out(memory, bytes);
}

// From the next allocator into the heap; nullptr: it stays there.
void* move_in(void* memory, std::size_t bytes) {
  void* moved = allocate(bytes, 0, false);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(bytes, next_malloc.usable_bytes(memory)));
  next_malloc.release(memory);
  return moved;
}

}  // namespace
}  // namespace outrigger::heap

using outrigger::heap::in_heap;
using outrigger::heap::kLeastBytes;
using outrigger::heap::next_malloc;

#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t bytes) {
  if (bytes < kLeastBytes) [[likely]]
    return next_malloc.allocate(bytes);
  return outrigger::heap::large(bytes);
}

void free(void* memory) {
  if (!in_heap(memory)) [[likely]]
    return next_malloc.release(memory);
  const int error = errno;  // programs expect free() to preserve errno
  outrigger::heap::release(memory);
  errno = error;
}

void* calloc(std::size_t count, std::size_t bytes) {
  std::size_t total = 0;
  if (!__builtin_mul_overflow(count, bytes, &total) && total >= kLeastBytes) {
    if (void* memory = outrigger::heap::allocate(total, 0, true)) return memory;
  }
  return next_malloc.allocate_zeroed(count, bytes);
}

void* realloc(void* memory, std::size_t bytes) {
  if (memory == nullptr) return malloc(bytes);
  if (in_heap(memory)) return outrigger::heap::resize_in_heap(memory, bytes);
  if (bytes >= kLeastBytes) {
    if (void* moved = outrigger::heap::move_in(memory, bytes)) return moved;
  }
  return next_malloc.resize(memory, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  if (bytes < kLeastBytes) return next_malloc.aligned(alignment, bytes);
  return outrigger::heap::large_aligned(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int error = errno;  // must leave errno alone
  void* memory = memalign(alignment, bytes);
  errno = error;
  if (memory == nullptr) return ENOMEM;
  *result = memory;
  return 0;
}

std::size_t malloc_usable_size(void* memory) {
  return in_heap(memory) ? outrigger::heap::usable_bytes(memory) : next_malloc.usable_bytes(memory);
}

const outrigger::SharedHeap* outrigger_shared_heap() {
  return outrigger::heap::shared_heap();
}

}  // extern "C"
#pragma GCC visibility pop
