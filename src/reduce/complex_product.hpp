// Products of complex numbers, compiled once for all instruction sets. C's rules for infinities prevent vectorization,
// and gcc 12 fuses the products with AVX-512 despite -ffp-contract.
#pragma once

#include <cstddef>

namespace outrigger::reduce {

void product_of_complex_float(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements);
void product_of_complex_double(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements);
void product_of_complex_long_double(const std::byte* left, const std::byte* right, std::byte* into,
                                    std::size_t elements);

}  // namespace outrigger::reduce
