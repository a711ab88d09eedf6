#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <bit>

#include "reduce/half_floats.hpp"
#include "reduce/half_kernels.hpp"

namespace outrigger::reduce {
namespace {

// The exponents of float16 become those of float by a multiplication, which also makes denormals normal.
float float_of(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7fffU;
  const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
  if (magnitude > 0x7c00U) return std::bit_cast<float>(sign | 0x7fc00000U | (magnitude & 0x3ffU) << 13);
  if (magnitude == 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U);
  if (magnitude < 0x400U) {
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
}

std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U | (magnitude >> 13 & 0x3ffU);
  } else if (magnitude >= 0x477ff000U) {  // rounds to 65536 or more
    half = 0x7c00U;
  } else if (magnitude < 0x38800000U) {
    // Adding 0.5 leaves multiples of the least denormal, rounded.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    half = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

struct Baseline {
  static void to_float(HalfFloat type, const std::uint16_t* from, float* to, std::size_t elements) {
    if (type == HalfFloat::bfloat16) return bfloat16_to_float<Baseline>(from, to, elements);
    for (std::size_t i = 0; i < elements; ++i) to[i] = float_of(from[i]);
  }
  static void to_half(HalfFloat type, const float* from, std::uint16_t* to, std::size_t elements) {
    if (type == HalfFloat::bfloat16) return float_to_bfloat16<Baseline>(from, to, elements);
    for (std::size_t i = 0; i < elements; ++i) to[i] = half_of(from[i]);
  }
};

}  // namespace

void reduce_half_baseline(const HalfReduction& reduction, const std::byte* const* contributions, std::size_t members,
                          std::byte* into, std::size_t elements) {
  reduce_half<Baseline>(reduction, contributions, members, into, elements);
}

HalfKernel half_kernel() {
#if defined(__x86_64__)
  static const bool has_v3 = [] {
    __builtin_cpu_init();
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;  // unknown to clang 16's builtin
    return has_f16c && __builtin_cpu_supports("avx2");
  }();
  if (has_v3) return reduce_half_x86_64_v3;
#endif
  return reduce_half_baseline;
}

}  // namespace outrigger::reduce
