#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "sim/allocation_count.hpp"

namespace {

using outrigger::sim::allocation_count;
using outrigger::sim::AllocationCount;

[[maybe_unused]] const bool present = [] { return allocation_count().available = true; }();

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  AllocationCount& count = allocation_count();
  if (!count.counting) return memory;
  count.bytes += static_cast<std::int64_t>(::malloc_usable_size(memory));
  count.most_bytes = std::max(count.most_bytes, count.bytes);
  count.most_live = std::max(count.most_live, ++count.live);
  return memory;
}

void release(void* memory) {
  AllocationCount& count = allocation_count();
  if (count.counting && memory != nullptr) {
    count.bytes -= static_cast<std::int64_t>(::malloc_usable_size(memory));
    --count.live;
  }
  std::free(memory);
}

void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto boundary = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(boundary, (bytes + boundary - 1) / boundary * boundary));
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(std::malloc(bytes == 0 ? 1 : bytes));
}
void* operator new[](std::size_t bytes) {
  return counted(std::malloc(bytes == 0 ? 1 : bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return aligned(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return aligned(bytes, alignment);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}
