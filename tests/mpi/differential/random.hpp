// A small seeded generator. The same seed gives the same sequence on every rank, so ranks agree without communication.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace differential {

// Combines numbers into a seed; every one of them matters.
inline std::uint64_t mix(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  for (std::uint64_t part : parts) {
    hash ^= part + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    hash *= 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash;
}

class Random {  // splitmix64
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, limit); limit > 0.
  int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }
  // In [low, high].
  int between(int low, int high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  // In [1, limit], each power of two about equally likely.
  std::int64_t log_uniform(std::int64_t limit) {
    int bits = 0;
    while ((std::int64_t{1} << bits) < limit) ++bits;
    const std::int64_t top = std::int64_t{1} << below(bits + 1);
    const std::int64_t value = top + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(top));
    return value < limit ? value : limit;
  }

 private:
  std::uint64_t state_;
};

}  // namespace differential
