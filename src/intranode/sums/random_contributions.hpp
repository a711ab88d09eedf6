// Pseudo-random contributions that make orders of addition show. Each member can compute those of all.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "protocol/reduction.hpp"

namespace outrigger::intranode {

// T: float, double or long double.
template <class T>
class RandomContributions {
 public:
  RandomContributions(ReduceOperation operation, std::uint64_t vector) : operation_(operation), vector_(vector) {}

  [[nodiscard]] T value(std::size_t element, std::size_t member) const {
    const std::uint64_t kind = mixed(mixed(vector_) + element);
    const std::uint64_t bits = mixed(kind + 1 + member);
    const std::uint64_t fraction = mixed(bits);
    return operation_ == ReduceOperation::prod ? factor(kind, bits, fraction) : addend(kind, bits, fraction);
  }

 private:
  using Limits = std::numeric_limits<T>;
  static constexpr int kDigits = Limits::digits;

  // SplitMix64's step: every bit depends on all.
  static std::uint64_t mixed(std::uint64_t bits) {
    bits += 0x9E3779B97F4A7C15ULL;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
    return bits ^ (bits >> 31);
  }
  static T number(std::uint64_t bits, int exponent, std::uint64_t fraction) {
    constexpr int kUsed = kDigits < 64 ? kDigits : 64;
    const std::uint64_t digits = fraction >> (64 - kUsed) | std::uint64_t{1} << (kUsed - 1);
    const T value = std::ldexp(static_cast<T>(digits), exponent - kUsed + 1);
    return (bits & 1) != 0 ? -value : value;
  }
  // One of `count` exponents from `least` on.
  static int exponent(std::uint64_t bits, int least, int count) {
    return least + static_cast<int>((bits >> 8) % static_cast<unsigned>(count));
  }
  static T special(std::uint64_t bits) {
    const T sign = (bits & 1) != 0 ? T{-1} : T{1};
    switch ((bits >> 1) % 16) {
      case 0: return sign * Limits::infinity();
      case 1:
      case 2: return sign * Limits::denorm_min();
      case 3: return sign * Limits::min();
      case 4: return sign * Limits::max();
      case 5: return sign * Limits::epsilon();
      case 6: return sign * (1 + Limits::epsilon());
      case 7:
      case 8:
      case 9: return sign * T{0};
      default: return sign * T{1};
    }
  }

  static T addend(std::uint64_t kind, std::uint64_t bits, std::uint64_t fraction) {
    switch (kind % 8) {
      case 0: return special(bits);
      // Zeros, all of them negative in half of the cases.
      case 1: return (kind >> 8) % 2 != 0 || (bits & 1) != 0 ? -T{0} : T{0};
      case 2: return number(bits, exponent(bits, Limits::min_exponent - kDigits, kDigits + 4), fraction);
      case 3: return number(bits, exponent(bits, Limits::max_exponent - 4, 4), fraction);
      case 4: return number(bits, exponent(bits, -kDigits, 2 * kDigits), fraction);
      // Large numbers that cancel, and ones between.
      case 5: return std::ldexp((bits & 1) != 0 ? T{-1} : T{1}, static_cast<int>((bits >> 8) % 3) * (kDigits - 1));
      default: return number(bits, exponent(bits, 0, 3), fraction);
    }
  }
  static T factor(std::uint64_t kind, std::uint64_t bits, std::uint64_t fraction) {
    constexpr int kMost = Limits::max_exponent;
    switch (kind % 8) {
      case 0: return special(bits);
      case 1: return (bits >> 16) % 4 == 0 ? special(bits) : number(bits, 0, fraction);
      case 2:
      case 3: return number(bits, exponent(bits, -kMost * 3 / 4, kMost * 3 / 2), fraction);
      case 4: return number(bits, exponent(bits, -kMost + 2, 3) * ((bits >> 32) % 2 != 0 ? 1 : -1), fraction);
      default: return number(bits, exponent(bits, -2, 4), fraction);
    }
  }
  ReduceOperation operation_;
  std::uint64_t vector_;
};

}  // namespace outrigger::intranode
