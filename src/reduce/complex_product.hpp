// Products of complex numbers, compiled once for all instruction sets: C's rules for infinities leave nothing to do at
// once, and gcc 12 fuses them where it has AVX-512, whatever -ffp-contract says.
#pragma once

#include <cstddef>

namespace outrigger::reduce {

void product_of_complex_float(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements);
void product_of_complex_double(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements);
void product_of_complex_long_double(const std::byte* left, const std::byte* right, std::byte* into,
                                    std::size_t elements);

}  // namespace outrigger::reduce
