// Address ranges, and the table of reserved chunks with memory. Neither allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace outrigger::heap {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kChunkBytes = 2ULL << 20;

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  [[nodiscard]] bool empty() const { return begin >= end; }
  [[nodiscard]] std::uint64_t bytes() const { return empty() ? 0 : end - begin; }
  [[nodiscard]] bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

[[nodiscard]] inline Range common(const Range& one, const Range& other) {
  return {std::max(one.begin, other.begin), std::min(one.end, other.end)};
}

// Sorted, without overlaps. When full, the last two are merged.
class RangeSet {
 public:
  static constexpr std::size_t kMost = 128;

  constexpr RangeSet() = default;
  void add(Range wanted);
  void clear() { count_ = 0; }
  [[nodiscard]] std::span<const Range> ranges() const { return {ranges_.data(), count_}; }

 private:
  std::array<Range, kMost> ranges_{};
  std::size_t count_ = 0;
};

// Memory behind a chunk.
enum class ChunkState : std::uint8_t { unmapped = 0, mapped = 1, backed = 2 };

class ChunkTable {
 public:
  constexpr ChunkTable() = default;
  // `states`: zeroed, one for each chunk from `begin` on.
  constexpr ChunkTable(std::uintptr_t begin, ChunkState* states) : begin_(begin), states_(states) {}

  [[nodiscard]] std::size_t chunk_of(std::uintptr_t address) const { return (address - begin_) / kChunkBytes; }
  [[nodiscard]] std::uintptr_t address_of(std::size_t chunk) const { return begin_ + chunk * kChunkBytes; }
  void set(std::size_t first, std::size_t last, ChunkState state) { std::fill(states_ + first, states_ + last, state); }
  void lower_to_mapped(std::size_t first, std::size_t last) {
    for (; first < last; ++first) states_[first] = std::min(states_[first], ChunkState::mapped);
  }

  // Calls visit(first, last) for each run of chunks within [first, last) that are below `state`, until it returns
  // false.
  template <class Visit>
  bool each_run_below(ChunkState state, std::size_t first, std::size_t last, const Visit& visit) const {
    return each_run(
        first, last, [state](ChunkState each) { return each < state; }, visit);
  }
  // Calls visit(Range) for each mapped part of `range`.
  template <class Visit>
  void each_mapped(const Range& range, const Visit& visit) const {
    if (range.empty()) return;
    const auto mapped = [](ChunkState state) { return state >= ChunkState::mapped; };
    each_run(chunk_of(range.begin), chunk_of(range.end - 1) + 1, mapped, [&](std::size_t first, std::size_t last) {
      visit(common(range, Range{address_of(first), address_of(last)}));
      return true;
    });
  }

 private:
  template <class Wanted, class Visit>
  bool each_run(std::size_t first, std::size_t last, const Wanted& wanted, const Visit& visit) const {
    while (first < last) {
      if (!wanted(states_[first])) {
        ++first;
        continue;
      }
      std::size_t end = first;
      while (end < last && wanted(states_[end])) ++end;
      if (!visit(first, end)) return false;
      first = end;
    }
    return true;
  }

  std::uintptr_t begin_ = 0;
  ChunkState* states_ = nullptr;
};

}  // namespace outrigger::heap
