// Memory for one side of an operation: from malloc or MPI_Alloc_mem, possibly in the middle of it, with poisoned
// guards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "random.hpp"

namespace differential {

class Buffer {
 public:
  Buffer() = default;
  // Room for the addresses [low, high) relative to base(), which may both be negative, with guards outside. All of it
  // is filled with bytes that follow from `content`.
  Buffer(std::ptrdiff_t low, std::ptrdiff_t high, bool from_mpi, std::size_t skip, std::uint64_t content);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  [[nodiscard]] std::byte* base() const { return base_; }
  // Fills all of it again from `content`.
  void fill(std::uint64_t content);
  // True if all bytes, including guards and gaps, are still those of fill(content).
  [[nodiscard]] bool untouched(std::uint64_t content) const;
  // Offset from base() of the first byte that differs, or `none`.
  static constexpr std::ptrdiff_t none = PTRDIFF_MIN;
  [[nodiscard]] std::ptrdiff_t first_difference(const Buffer& other) const;
  [[nodiscard]] int at(std::ptrdiff_t offset) const { return static_cast<int>(base_[offset]); }

 private:
  void swap(Buffer& other) noexcept;

  std::byte* memory_ = nullptr;  // the allocation
  std::byte* begin_ = nullptr;   // the part that is filled and compared
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
  bool from_mpi_ = false;
};

}  // namespace differential
