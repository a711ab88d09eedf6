// The kernels as templates, compiled once for each instruction set. `Set` is only a name: it keeps the linker from
// merging code for different processors. For the same reason no standard library function is called here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/reduction.hpp"
#include "reduce/complex_product.hpp"
#include "reduce/kernel_tables.hpp"

namespace outrigger::reduce {

// An element at any address.
template <class Set, class T>
struct [[gnu::packed, gnu::may_alias]] Cell {
  T value;
};

template <class Set>
struct Max {
  template <class T>
  static T of(T left, T right) {
    return right > left ? right : left;
  }
};
template <class Set>
struct Min {
  template <class T>
  static T of(T left, T right) {
    return right < left ? right : left;
  }
};
// Integers are unsigned, so that they wrap; 1U keeps short ones from becoming signed.
template <class Set>
struct Sum {
  template <class T>
  static T of(T left, T right) {
    return static_cast<T>(left + right);
  }
};
template <class Set>
struct Product {
  template <class T>
  static T of(T left, T right) {
    if constexpr (sizeof(T) < sizeof(unsigned)) {
      return static_cast<T>(1U * left * right);
    } else {
      return left * right;
    }
  }
};
template <class Set>
struct LogicalAnd {
  template <class T>
  static T of(T left, T right) {
    return static_cast<T>((left != 0) & (right != 0));
  }
};
template <class Set>
struct LogicalOr {
  template <class T>
  static T of(T left, T right) {
    return static_cast<T>((left != 0) | (right != 0));
  }
};
template <class Set>
struct LogicalXor {
  template <class T>
  static T of(T left, T right) {
    return static_cast<T>((left != 0) != (right != 0));
  }
};
template <class Set>
struct BitAnd {
  template <class T>
  static T of(T left, T right) {
    return static_cast<T>(left & right);
  }
};
template <class Set>
struct BitOr {
  template <class T>
  static T of(T left, T right) {
    return static_cast<T>(left | right);
  }
};
template <class Set>
struct BitXor {
  template <class T>
  static T of(T left, T right) {
    return static_cast<T>(left ^ right);
  }
};

// Two loops without overlaps for the compiler. With one loop it would check at run time, and process single elements if
// the result replaces an operand.
template <class Set, class T, class Operation>
void elementwise(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements) {
  using Element = Cell<Set, T>;
  const auto* __restrict from = reinterpret_cast<const Element*>(right);
  auto* __restrict to = reinterpret_cast<Element*>(into);
  if (left == into) {
    for (std::size_t i = 0; i < elements; ++i) to[i].value = Operation::of(to[i].value, from[i].value);
    return;
  }
  const auto* __restrict first = reinterpret_cast<const Element*>(left);
  for (std::size_t i = 0; i < elements; ++i) to[i].value = Operation::of(first[i].value, from[i].value);
}

// Complex numbers, added by parts.
template <class Set, class T>
void complex_sum(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements) {
  elementwise<Set, T, Sum<Set>>(left, right, into, 2 * elements);
}

template <class Set, class Value, class Index>
struct LocatedValue {
  Value value;
  Index index;
};

// `Better`: Max or Min. By members, as the gaps between them are undefined.
template <class Set, class Value, class Index, bool greater>
void located(const std::byte* left, const std::byte* right, std::byte* into, std::size_t elements) {
  using Element = Cell<Set, LocatedValue<Set, Value, Index>>;
  const auto* first = reinterpret_cast<const Element*>(left);
  const auto* second = reinterpret_cast<const Element*>(right);
  auto* to = reinterpret_cast<Element*>(into);
  for (std::size_t i = 0; i < elements; ++i) {
    Value value = first[i].value.value;
    Index index = first[i].value.index;
    const Value other = second[i].value.value;
    const Index other_index = second[i].value.index;
    const bool better = greater ? other > value : other < value;
    if (better || (other == value && other_index < index)) index = other_index;
    if (better) value = other;
    to[i].value.value = value;
    to[i].value.index = index;
  }
}

template <class Set>
constexpr Kernel& entry(KernelTable& table, ReduceOperation operation, ElementType type) {
  return table.kernels[static_cast<std::size_t>(operation) - 1][static_cast<std::size_t>(type) - 1];
}

template <class Set, class T>
constexpr void add_logical(KernelTable& table, ElementType type) {
  entry<Set>(table, ReduceOperation::land, type) = elementwise<Set, T, LogicalAnd<Set>>;
  entry<Set>(table, ReduceOperation::lor, type) = elementwise<Set, T, LogicalOr<Set>>;
  entry<Set>(table, ReduceOperation::lxor, type) = elementwise<Set, T, LogicalXor<Set>>;
}

template <class Set, class T>
constexpr void add_bits(KernelTable& table, ElementType type) {
  entry<Set>(table, ReduceOperation::band, type) = elementwise<Set, T, BitAnd<Set>>;
  entry<Set>(table, ReduceOperation::bor, type) = elementwise<Set, T, BitOr<Set>>;
  entry<Set>(table, ReduceOperation::bxor, type) = elementwise<Set, T, BitXor<Set>>;
}

template <class Set, class T>
constexpr void add_arithmetic(KernelTable& table, ElementType type) {
  entry<Set>(table, ReduceOperation::sum, type) = elementwise<Set, T, Sum<Set>>;
  entry<Set>(table, ReduceOperation::prod, type) = elementwise<Set, T, Product<Set>>;
}

template <class Set, class T>
constexpr void add_order(KernelTable& table, ElementType type) {
  entry<Set>(table, ReduceOperation::max, type) = elementwise<Set, T, Max<Set>>;
  entry<Set>(table, ReduceOperation::min, type) = elementwise<Set, T, Min<Set>>;
}

template <class Set, class Signed, class Unsigned>
constexpr void add_integers(KernelTable& table, ElementType with_sign, ElementType without) {
  add_order<Set, Signed>(table, with_sign);
  add_order<Set, Unsigned>(table, without);
  for (const ElementType type : {with_sign, without}) {
    add_arithmetic<Set, Unsigned>(table, type);
    add_logical<Set, Unsigned>(table, type);
    add_bits<Set, Unsigned>(table, type);
  }
}

template <class Set, class T>
constexpr void add_floats(KernelTable& table, ElementType type) {
  add_order<Set, T>(table, type);
  add_arithmetic<Set, T>(table, type);
}

template <class Set, class T>
constexpr void add_complex(KernelTable& table, ElementType type, Kernel product) {
  entry<Set>(table, ReduceOperation::sum, type) = complex_sum<Set, T>;
  entry<Set>(table, ReduceOperation::prod, type) = product;
}

template <class Set, class Value, class Index>
constexpr void add_located(KernelTable& table, ElementType type) {
  entry<Set>(table, ReduceOperation::maxloc, type) = located<Set, Value, Index, true>;
  entry<Set>(table, ReduceOperation::minloc, type) = located<Set, Value, Index, false>;
}

template <class Set>
constexpr KernelTable make_table() {
  KernelTable table{};
  add_integers<Set, std::int8_t, std::uint8_t>(table, ElementType::int8, ElementType::uint8);
  add_integers<Set, std::int16_t, std::uint16_t>(table, ElementType::int16, ElementType::uint16);
  add_integers<Set, std::int32_t, std::uint32_t>(table, ElementType::int32, ElementType::uint32);
  add_integers<Set, std::int64_t, std::uint64_t>(table, ElementType::int64, ElementType::uint64);
  add_floats<Set, float>(table, ElementType::float32);
  add_floats<Set, double>(table, ElementType::float64);
  add_floats<Set, long double>(table, ElementType::long_double);
  add_complex<Set, float>(table, ElementType::complex_float, product_of_complex_float);
  add_complex<Set, double>(table, ElementType::complex_double, product_of_complex_double);
  add_complex<Set, long double>(table, ElementType::complex_long_double, product_of_complex_long_double);
  add_logical<Set, std::uint8_t>(table, ElementType::logical8);
  add_logical<Set, std::uint16_t>(table, ElementType::logical16);
  add_logical<Set, std::uint32_t>(table, ElementType::logical32);
  add_logical<Set, std::uint64_t>(table, ElementType::logical64);
  add_bits<Set, std::uint8_t>(table, ElementType::byte);
  add_located<Set, float, int>(table, ElementType::float_int);
  add_located<Set, double, int>(table, ElementType::double_int);
  add_located<Set, long, int>(table, ElementType::long_int);
  add_located<Set, int, int>(table, ElementType::two_int);
  add_located<Set, short, int>(table, ElementType::short_int);
  add_located<Set, long double, int>(table, ElementType::long_double_int);
  add_located<Set, float, float>(table, ElementType::two_real);
  add_located<Set, double, double>(table, ElementType::two_double);
  return table;
}

}  // namespace outrigger::reduce
