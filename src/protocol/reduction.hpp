// Operation and element type of a reduction. The numbers are part of the wire format: add at the end, never renumber.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace outrigger {

enum class ReduceOperation : std::uint8_t {
  max = 1,
  min = 2,
  sum = 3,
  prod = 4,
  land = 5,
  lor = 6,
  lxor = 7,
  band = 8,
  bor = 9,
  bxor = 10,
  maxloc = 11,
  minloc = 12,
};

// By representation: MPI has several names for the same bytes.
enum class ElementType : std::uint8_t {
  int8 = 1,
  int16 = 2,
  int32 = 3,
  int64 = 4,
  uint8 = 5,
  uint16 = 6,
  uint32 = 7,
  uint64 = 8,
  float32 = 9,
  float64 = 10,
  long_double = 11,
  complex_float = 12,
  complex_double = 13,
  complex_long_double = 14,
  logical8 = 15,  // also C's _Bool and C++'s bool
  logical16 = 16,
  logical32 = 17,
  logical64 = 18,
  byte = 19,
  // A value and an index, laid out like the C struct.
  float_int = 20,
  double_int = 21,
  long_int = 22,
  two_int = 23,  // also Fortran's 2INTEGER
  short_int = 24,
  long_double_int = 25,
  // Fortran's pairs: the index has the value's type.
  two_real = 26,
  two_double = 27,
};

enum class ElementKind : std::uint8_t { integer, floating, complex, logical, byte, located };

struct ReduceOperationRow {
  ReduceOperation operation;
  std::string_view name;
};
inline constexpr std::array kReduceOperations{
    ReduceOperationRow{ReduceOperation::max, "max"},       ReduceOperationRow{ReduceOperation::min, "min"},
    ReduceOperationRow{ReduceOperation::sum, "sum"},       ReduceOperationRow{ReduceOperation::prod, "prod"},
    ReduceOperationRow{ReduceOperation::land, "land"},     ReduceOperationRow{ReduceOperation::lor, "lor"},
    ReduceOperationRow{ReduceOperation::lxor, "lxor"},     ReduceOperationRow{ReduceOperation::band, "band"},
    ReduceOperationRow{ReduceOperation::bor, "bor"},       ReduceOperationRow{ReduceOperation::bxor, "bxor"},
    ReduceOperationRow{ReduceOperation::maxloc, "maxloc"}, ReduceOperationRow{ReduceOperation::minloc, "minloc"},
};

struct ElementTypeRow {
  ElementType type;
  std::string_view name;
  ElementKind kind;
  std::uint8_t bytes;  // distance between elements, including gaps
};
namespace detail {
template <class Value, class Index>
struct Located {
  Value value;
  Index index;
};
}  // namespace detail
inline constexpr std::array kElementTypes{
    ElementTypeRow{ElementType::int8, "int8", ElementKind::integer, 1},
    ElementTypeRow{ElementType::int16, "int16", ElementKind::integer, 2},
    ElementTypeRow{ElementType::int32, "int32", ElementKind::integer, 4},
    ElementTypeRow{ElementType::int64, "int64", ElementKind::integer, 8},
    ElementTypeRow{ElementType::uint8, "uint8", ElementKind::integer, 1},
    ElementTypeRow{ElementType::uint16, "uint16", ElementKind::integer, 2},
    ElementTypeRow{ElementType::uint32, "uint32", ElementKind::integer, 4},
    ElementTypeRow{ElementType::uint64, "uint64", ElementKind::integer, 8},
    ElementTypeRow{ElementType::float32, "float32", ElementKind::floating, 4},
    ElementTypeRow{ElementType::float64, "float64", ElementKind::floating, 8},
    ElementTypeRow{ElementType::long_double, "long_double", ElementKind::floating, sizeof(long double)},
    ElementTypeRow{ElementType::complex_float, "complex_float", ElementKind::complex, 8},
    ElementTypeRow{ElementType::complex_double, "complex_double", ElementKind::complex, 16},
    ElementTypeRow{ElementType::complex_long_double, "complex_long_double", ElementKind::complex,
                   2 * sizeof(long double)},
    ElementTypeRow{ElementType::logical8, "logical8", ElementKind::logical, 1},
    ElementTypeRow{ElementType::logical16, "logical16", ElementKind::logical, 2},
    ElementTypeRow{ElementType::logical32, "logical32", ElementKind::logical, 4},
    ElementTypeRow{ElementType::logical64, "logical64", ElementKind::logical, 8},
    ElementTypeRow{ElementType::byte, "byte", ElementKind::byte, 1},
    ElementTypeRow{ElementType::float_int, "float_int", ElementKind::located, sizeof(detail::Located<float, int>)},
    ElementTypeRow{ElementType::double_int, "double_int", ElementKind::located, sizeof(detail::Located<double, int>)},
    ElementTypeRow{ElementType::long_int, "long_int", ElementKind::located, sizeof(detail::Located<long, int>)},
    ElementTypeRow{ElementType::two_int, "two_int", ElementKind::located, sizeof(detail::Located<int, int>)},
    ElementTypeRow{ElementType::short_int, "short_int", ElementKind::located, sizeof(detail::Located<short, int>)},
    ElementTypeRow{ElementType::long_double_int, "long_double_int", ElementKind::located,
                   sizeof(detail::Located<long double, int>)},
    ElementTypeRow{ElementType::two_real, "two_real", ElementKind::located, 8},
    ElementTypeRow{ElementType::two_double, "two_double", ElementKind::located, 16},
};

// Indexes of their rows, which are in the order of the numbers.
[[nodiscard]] constexpr std::size_t index_of(ReduceOperation operation) {
  return static_cast<std::size_t>(operation) - 1;
}
[[nodiscard]] constexpr std::size_t index_of(ElementType type) {
  return static_cast<std::size_t>(type) - 1;
}
static_assert([] {
  for (std::size_t i = 0; i < kReduceOperations.size(); ++i) {
    if (index_of(kReduceOperations[i].operation) != i) return false;
  }
  for (std::size_t i = 0; i < kElementTypes.size(); ++i) {
    if (index_of(kElementTypes[i].type) != i) return false;
  }
  return true;
}());

[[nodiscard]] constexpr const ElementTypeRow& row_of(ElementType type) {
  return kElementTypes[index_of(type)];
}
[[nodiscard]] constexpr std::uint64_t element_bytes(ElementType type) {
  return row_of(type).bytes;
}
[[nodiscard]] constexpr std::string_view name_of(ReduceOperation operation) {
  return kReduceOperations[index_of(operation)].name;
}
[[nodiscard]] constexpr std::string_view name_of(ElementType type) {
  return row_of(type).name;
}

// True if MPI defines the operation for such elements.
[[nodiscard]] constexpr bool is_defined(ReduceOperation operation, ElementKind kind) {
  switch (operation) {
    case ReduceOperation::max:
    case ReduceOperation::min: return kind == ElementKind::integer || kind == ElementKind::floating;
    case ReduceOperation::sum:
    case ReduceOperation::prod:
      return kind == ElementKind::integer || kind == ElementKind::floating || kind == ElementKind::complex;
    case ReduceOperation::land:
    case ReduceOperation::lor:
    case ReduceOperation::lxor: return kind == ElementKind::integer || kind == ElementKind::logical;
    case ReduceOperation::band:
    case ReduceOperation::bor:
    case ReduceOperation::bxor: return kind == ElementKind::integer || kind == ElementKind::byte;
    case ReduceOperation::maxloc:
    case ReduceOperation::minloc: return kind == ElementKind::located;
  }
  return false;
}

// An operation and its element type; decode_reduction() accepts only pairs that MPI defines.
struct Reduction {
  ReduceOperation operation = ReduceOperation::sum;
  ElementType type = ElementType::byte;
  constexpr bool operator==(const Reduction&) const = default;

  [[nodiscard]] constexpr std::uint64_t element_bytes() const { return outrigger::element_bytes(type); }
};

// True if the result depends on the order of reduction, other than by NaNs and signs of zeros.
[[nodiscard]] constexpr bool rounds(const Reduction& reduction) {
  const ElementKind kind = row_of(reduction.type).kind;
  const bool inexact = kind == ElementKind::floating || kind == ElementKind::complex;
  return inexact && (reduction.operation == ReduceOperation::sum || reduction.operation == ReduceOperation::prod);
}

// True if the result has the same bits in any order and on any processor.
[[nodiscard]] constexpr bool is_exact(const Reduction& reduction) {
  const ElementKind kind = row_of(reduction.type).kind;
  return kind == ElementKind::integer || kind == ElementKind::logical || kind == ElementKind::byte;
}

// True for a pair that MPI defines; false for any other, of whatever numbers.
[[nodiscard]] constexpr bool is_reduction(const Reduction& reduction) {
  return index_of(reduction.operation) < kReduceOperations.size() && index_of(reduction.type) < kElementTypes.size() &&
         is_defined(reduction.operation, row_of(reduction.type).kind);
}

// From numbers of another process; nullopt if they are not a reduction.
[[nodiscard]] constexpr std::optional<Reduction> decode_reduction(std::uint32_t operation, std::uint32_t type) {
  if (operation > UINT8_MAX || type > UINT8_MAX) return std::nullopt;
  const Reduction reduction{static_cast<ReduceOperation>(operation), static_cast<ElementType>(type)};
  return is_reduction(reduction) ? std::optional(reduction) : std::nullopt;
}

}  // namespace outrigger
