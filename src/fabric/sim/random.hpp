// The only source of chance in a simulation: everything follows from the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace outrigger::fabric::sim {

struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x632BE59BD9B4E019ULL) {}

  [[nodiscard]] std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    return mix(state_);
  }
  // Below `limit`, which is not 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  [[nodiscard]] std::uint64_t within(Range range) { return range.least + below(range.most - range.least + 1); }
  [[nodiscard]] bool chance(double probability) { return static_cast<double>(next() >> 11U) * 0x1.0p-53 < probability; }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

  [[nodiscard]] static std::uint64_t mix(std::uint64_t word) {
    word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27U)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace outrigger::fabric::sim
