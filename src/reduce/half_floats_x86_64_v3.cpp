#include <immintrin.h>

#include "reduce/half_floats.hpp"
#include "reduce/half_kernels.hpp"

namespace outrigger::reduce {
namespace {

struct HalfLevel3 {
  static void to_float(HalfFloat type, const std::uint16_t* from, float* to, std::size_t elements) {
    if (type == HalfFloat::bfloat16) return bfloat16_to_float<HalfLevel3>(from, to, elements);
    std::size_t i = 0;
    for (; i + 8 <= elements; i += 8) {
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    }
    for (; i < elements; ++i) to[i] = _cvtsh_ss(from[i]);
  }
  static void to_half(HalfFloat type, const float* from, std::uint16_t* to, std::size_t elements) {
    if (type == HalfFloat::bfloat16) return float_to_bfloat16<HalfLevel3>(from, to, elements);
    std::size_t i = 0;
    for (; i + 8 <= elements; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
    for (; i < elements; ++i) to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
  }
};

}  // namespace

void reduce_half_x86_64_v3(const HalfReduction& reduction, const std::byte* const* contributions, std::size_t members,
                           std::byte* into, std::size_t elements) {
  reduce_half<HalfLevel3>(reduction, contributions, members, into, elements);
}

}  // namespace outrigger::reduce
