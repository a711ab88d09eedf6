// Sums of 16-bit floating-point numbers: every number, both kernels, and one rounding.
#include "reduce/half_floats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace outrigger::reduce {
namespace {

using Halves = std::vector<std::uint16_t>;

// By its definition: sign, exponent, fraction.
double value_of(HalfFloat type, std::uint16_t half) {
  const int fraction_bits = type == HalfFloat::float16 ? 10 : 7;
  const int most = type == HalfFloat::float16 ? 31 : 255;
  const int bias = type == HalfFloat::float16 ? 15 : 127;
  const int exponent = half >> fraction_bits & most;
  const int fraction = half & ((1 << fraction_bits) - 1);
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == most) return fraction != 0 ? NAN : sign * INFINITY;
  const int whole = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(whole + fraction, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
}

Halves reduced(HalfKernel kernel, const HalfReduction& reduction, const std::vector<Halves>& contributions) {
  std::vector<const std::byte*> from;
  for (const Halves& one : contributions) from.push_back(reinterpret_cast<const std::byte*>(one.data()));
  Halves result(contributions.front().size());
  kernel(reduction, from.data(), from.size(), reinterpret_cast<std::byte*>(result.data()), result.size());
  return result;
}

Halves all_numbers() {
  Halves numbers(65536);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(i);
  return numbers;
}

class HalfFloatsTest : public testing::TestWithParam<HalfFloat> {
 protected:
  [[nodiscard]] std::vector<HalfKernel> kernels() const {
    std::vector<HalfKernel> all{reduce_half_baseline};
    if (half_kernel() != all.front()) all.push_back(half_kernel());
    return all;
  }
};

TEST_P(HalfFloatsTest, ANumberAloneIsItself) {
  const Halves numbers = all_numbers();
  for (const HalfKernel kernel : kernels()) {
    const Halves result = reduced(kernel, {GetParam(), ReduceOperation::sum}, {numbers});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (std::isnan(value_of(GetParam(), numbers[i]))) {
        ASSERT_TRUE(std::isnan(value_of(GetParam(), result[i]))) << i;
      } else {
        ASSERT_EQ(result[i], numbers[i]);
      }
    }
  }
}

// The result is the nearest number to the sum of floats, and an even one between two.
TEST_P(HalfFloatsTest, TheSumOfFloatsIsRoundedOnce) {
  std::mt19937 random(1);
  const Halves numbers = all_numbers();
  std::vector<Halves> contributions(3, numbers);
  for (Halves& one : contributions) std::shuffle(one.begin(), one.end(), random);
  for (const HalfKernel kernel : kernels()) {
    const Halves result = reduced(kernel, {GetParam(), ReduceOperation::sum}, contributions);
    for (std::size_t i = 0; i < result.size(); ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        const auto next = static_cast<float>(value_of(GetParam(), contributions[k][i]));
        sum = k == 0 ? next : sum + next;
      }
      const double given = value_of(GetParam(), result[i]);
      if (std::isnan(sum)) {
        ASSERT_TRUE(std::isnan(given));
        continue;
      }
      if (std::isinf(given)) continue;  // its neighbours are in ANumberAloneIsItself and BothKernelsGiveTheSameBits
      const double away = std::abs(given - sum);
      for (const int step : {-1, 1}) {
        const auto neighbour = static_cast<std::uint16_t>(result[i] + step);
        const double other = std::abs(value_of(GetParam(), neighbour) - sum);
        if (std::isnan(other)) continue;
        ASSERT_TRUE(away < other || (away == other && (result[i] & 1) == 0)) << sum << " became " << given;
      }
    }
  }
}

TEST_P(HalfFloatsTest, BothKernelsGiveTheSameBits) {
  std::mt19937 random(2);
  std::vector<Halves> contributions(4, all_numbers());
  for (Halves& one : contributions) std::shuffle(one.begin(), one.end(), random);
  contributions.resize(4);
  for (const auto operation :
       {ReduceOperation::sum, ReduceOperation::prod, ReduceOperation::max, ReduceOperation::min}) {
    for (const float divisor : {1.0F, 3.0F}) {
      const HalfReduction reduction{GetParam(), operation, divisor};
      const Halves expected = reduced(reduce_half_baseline, reduction, contributions);
      const Halves given = reduced(half_kernel(), reduction, contributions);
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (std::isnan(value_of(GetParam(), expected[i])) && std::isnan(value_of(GetParam(), given[i]))) continue;
        ASSERT_EQ(given[i], expected[i]) << i;
      }
    }
  }
}

TEST_P(HalfFloatsTest, TheResultMayReplaceAContribution) {
  const HalfReduction reduction{GetParam(), ReduceOperation::sum};
  std::vector<Halves> contributions(2, Halves(1000, 0x3c01));
  const Halves expected = reduced(half_kernel(), reduction, contributions);
  const std::array<const std::byte*, 2> from{reinterpret_cast<const std::byte*>(contributions[0].data()),
                                             reinterpret_cast<const std::byte*>(contributions[1].data())};
  half_kernel()(reduction, from.data(), from.size(), reinterpret_cast<std::byte*>(contributions[1].data()), 1000);
  EXPECT_EQ(contributions[1], expected);
}

INSTANTIATE_TEST_SUITE_P(Types, HalfFloatsTest, testing::Values(HalfFloat::float16, HalfFloat::bfloat16));

}  // namespace
}  // namespace outrigger::reduce
