#include "reduce/complex_product.hpp"

#include <complex>

namespace outrigger::reduce {
namespace {

// By parts: the last bytes of a long double are undefined.
template <class T>
struct [[gnu::packed, gnu::may_alias]] Parts {
  T real;
  T imaginary;
};

template <class T>
void product(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements) {
  const auto* first = reinterpret_cast<const Parts<T>*>(left);
  const auto* second = reinterpret_cast<const Parts<T>*>(right);
  auto* to = reinterpret_cast<Parts<T>*>(into);
  for (std::size_t i = 0; i < elements; ++i) {
    const T a = first[i].real;
    const T b = first[i].imaginary;
    const T c = second[i].real;
    const T d = second[i].imaginary;
    const std::complex<T> result = std::complex<T>(a, b) * std::complex<T>(c, d);
    to[i].real = result.real();
    to[i].imaginary = result.imag();
  }
}

}  // namespace

void product_of_complex_float(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements) {
  product<float>(left, right, into, elements);
}

void product_of_complex_double(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements) {
  product<double>(left, right, into, elements);
}

void product_of_complex_long_double(const std::byte* left, const std::byte* right, std::byte* into,
                                    std::size_t elements) {
  product<long double>(left, right, into, elements);
}

}  // namespace outrigger::reduce
