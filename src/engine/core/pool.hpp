// Memory pool for objects that operations make and drop all the time: coroutine frames, ranks' parts and their small
// arrays. Freed chunks are kept by size, so an operation like an earlier one allocates nothing. Large chunks come from
// the allocator.
//
// One pool per engine. It outlives everything allocated from it.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace outrigger::engine {

class Pool {
 public:
  static constexpr std::size_t kGrainBytes = 64;
  static constexpr std::size_t kLargestPooledBytes = 2048;
  // Free chunks kept per size; more are freed.
  static constexpr std::uint32_t kKeptChunks = 1024;

  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    assert(live_ == 0);
    for (SizeClass& size_class : classes_) {
      while (FreeChunk* chunk = size_class.take()) ::operator delete(chunk);
    }
  }

  [[nodiscard]] void* allocate(std::size_t bytes) {
    most_live_ = std::max(most_live_, ++live_);
    const std::size_t size_class = class_of(bytes);
    void* memory = nullptr;
    if (size_class < classes_.size()) memory = classes_[size_class].take();
    if (memory == nullptr) memory = ::operator new(chunk_bytes(bytes));
    auto* header = new (memory) Header(this, size_class);
    return header + 1;
  }

  // Chunks in use now, and the highest value.
  [[nodiscard]] std::size_t live() const { return live_; }
  [[nodiscard]] std::size_t most_live() const { return most_live_; }

  // Allocates without a pool.
  [[nodiscard]] static void* allocate_alone(std::size_t bytes) {
    auto* header = new (::operator new(chunk_bytes(bytes))) Header(nullptr, kClasses);
    return header + 1;
  }

  // Frees memory of allocate() or allocate_alone().
  static void release(void* memory) noexcept {
    Header* header = static_cast<Header*>(memory) - 1;
    Pool* pool = header->pool;
    const std::size_t size_class = header->size_class;
    if (pool != nullptr) --pool->live_;
    if (pool != nullptr && size_class < kClasses && pool->classes_[size_class].put(header)) return;
    ::operator delete(header);
  }

 private:
  struct alignas(std::max_align_t) Header {
    Header(Pool* owner, std::size_t number) : pool(owner), size_class(number) {}
    Pool* pool;
    std::size_t size_class;
  };
  struct FreeChunk {
    FreeChunk* next;
  };
  struct SizeClass {
    [[nodiscard]] FreeChunk* take() {
      if (first == nullptr) return nullptr;
      --kept;
      return std::exchange(first, first->next);
    }
    [[nodiscard]] bool put(void* memory) {
      if (kept == kKeptChunks) return false;
      ++kept;
      first = new (memory) FreeChunk{first};
      return true;
    }
    FreeChunk* first = nullptr;
    std::uint32_t kept = 0;
  };

#if defined(OUTRIGGER_SANITIZED)
  static constexpr std::size_t kClasses = 0;  // makes use after release visible
#else
  static constexpr std::size_t kClasses = kLargestPooledBytes / kGrainBytes;
#endif

  static constexpr std::size_t class_of(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + sizeof(Header) - 1) / kGrainBytes;
  }
  static constexpr std::size_t chunk_bytes(std::size_t bytes) {
    const std::size_t size_class = class_of(bytes);
    return size_class < kClasses ? (size_class + 1) * kGrainBytes : bytes + sizeof(Header);
  }

  std::array<SizeClass, kClasses> classes_{};
  std::size_t live_ = 0;
  std::size_t most_live_ = 0;
};

// Classes that derive from this are made by `new (pool) T(...)`.
class Pooled {
 public:
  static void* operator new(std::size_t bytes, Pool& pool) { return pool.allocate(bytes); }
  static void operator delete(void* memory, Pool& /*pool*/) { Pool::release(memory); }
  static void operator delete(void* memory) { Pool::release(memory); }

 protected:
  Pooled() = default;
  ~Pooled() = default;
};

// A fixed number of plain values in a pool's memory. Empty until make().
template <class T>
class PooledArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  PooledArray() = default;
  PooledArray(Pool& pool, std::size_t size, const T& value) { make(pool, size, value); }
  PooledArray(const PooledArray&) = delete;
  PooledArray& operator=(const PooledArray&) = delete;
  ~PooledArray() {
    if (values_ != nullptr) Pool::release(values_);
  }

  void make(Pool& pool, std::size_t size, const T& value) {
    assert(values_ == nullptr);
    if (size == 0) return;
    values_ = static_cast<T*>(pool.allocate(size * sizeof(T)));  // NOLINT(bugprone-sizeof-expression): may be pointers
    size_ = size;
    std::uninitialized_fill_n(values_, size, value);
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::size_t index) { return values_[index]; }
  [[nodiscard]] const T& operator[](std::size_t index) const { return values_[index]; }
  [[nodiscard]] T* begin() { return values_; }
  [[nodiscard]] T* end() { return values_ + size_; }
  [[nodiscard]] const T* begin() const { return values_; }
  [[nodiscard]] const T* end() const { return values_ + size_; }

 private:
  T* values_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace outrigger::engine
