#include "mpi/types/reducible.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace outrigger::mpi {
namespace {

// The groups of types for which the standard defines operations.
enum class TypeGroup : std::uint8_t {
  c_integer,
  c_unsigned,
  fortran_integer,  // and those of all languages: MPI_AINT, MPI_OFFSET, MPI_COUNT
  floating,
  complex,
  logical,
  byte,
  located
};

struct KnownType {
  std::uint64_t key;
  TypeGroup group;
  ElementType located = ElementType::two_int;  // of that group
  bool operator<(const KnownType& other) const { return key < other.key; }
};

struct KnownOperation {
  std::uint64_t key;
  ReduceOperation operation;
};

// An MPI without Fortran has a null handle for its types.
void add_all(std::vector<KnownType>& types, TypeGroup group, std::initializer_list<MPI_Datatype> handles) {
  for (const MPI_Datatype handle : handles) {
    if (handle != MPI_DATATYPE_NULL) types.push_back({handle_key(handle), group});
  }
}

void add_located(std::vector<KnownType>& types, MPI_Datatype handle, ElementType element) {
  if (handle != MPI_DATATYPE_NULL) types.push_back({handle_key(handle), TypeGroup::located, element});
}

// Handles alone: what an MPI that has been loaded says of a type that it does not have may end the program.
std::vector<KnownType> known_types() {
  std::vector<KnownType> types;
  add_all(types, TypeGroup::c_integer,
          {MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T,
           MPI_INT64_T});
  add_all(types, TypeGroup::c_unsigned,
          {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T,
           MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T});
  add_all(types, TypeGroup::fortran_integer,
          {MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_AINT, MPI_OFFSET, MPI_COUNT});
  add_all(types, TypeGroup::floating,
          {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_REAL4, MPI_REAL8, MPI_DOUBLE_PRECISION});
  add_all(
      types, TypeGroup::complex,
      {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16,
       MPI_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX});
  add_all(types, TypeGroup::logical, {MPI_C_BOOL, MPI_CXX_BOOL, MPI_LOGICAL});
  add_all(types, TypeGroup::byte, {MPI_BYTE});
  add_located(types, MPI_FLOAT_INT, ElementType::float_int);
  add_located(types, MPI_DOUBLE_INT, ElementType::double_int);
  add_located(types, MPI_LONG_INT, ElementType::long_int);
  add_located(types, MPI_2INT, ElementType::two_int);
  add_located(types, MPI_SHORT_INT, ElementType::short_int);
  add_located(types, MPI_LONG_DOUBLE_INT, ElementType::long_double_int);
  add_located(types, MPI_2INTEGER, ElementType::two_int);
  add_located(types, MPI_2REAL, ElementType::two_real);
  add_located(types, MPI_2DOUBLE_PRECISION, ElementType::two_double);
  std::sort(types.begin(), types.end());
  return types;
}

std::vector<KnownOperation> known_operations() {
  using enum ReduceOperation;
  std::vector<KnownOperation> operations;
  const std::pair<MPI_Op, ReduceOperation> all[] = {
      {MPI_SUM, sum},   {MPI_MAX, max},   {MPI_MIN, min}, {MPI_PROD, prod}, {MPI_LAND, land},     {MPI_LOR, lor},
      {MPI_LXOR, lxor}, {MPI_BAND, band}, {MPI_BOR, bor}, {MPI_BXOR, bxor}, {MPI_MAXLOC, maxloc}, {MPI_MINLOC, minloc},
  };
  for (const auto& [handle, operation] : all) operations.push_back({handle_key(handle), operation});
  return operations;
}

std::optional<ReduceOperation> find_operation(MPI_Op operation) {
  static const std::vector<KnownOperation> known = known_operations();
  const std::uint64_t key = handle_key(operation);
  for (const KnownOperation& candidate : known) {
    if (candidate.key == key) return candidate.operation;
  }
  return std::nullopt;
}

const KnownType* find_type(MPI_Datatype type) {
  static const std::vector<KnownType> known = known_types();
  const std::uint64_t key = handle_key(type);
  const auto found = std::lower_bound(known.begin(), known.end(), KnownType{key, TypeGroup::byte});
  return found != known.end() && found->key == key ? &*found : nullptr;
}

// The first of a group's elements that has so many bytes.
std::optional<ElementType> sized(std::initializer_list<ElementType> elements, std::int64_t bytes) {
  for (const ElementType element : elements) {
    if (static_cast<std::int64_t>(element_bytes(element)) == bytes) return element;
  }
  return std::nullopt;
}

std::optional<ElementType> element_of(const KnownType& type, std::int64_t extent) {
  using enum ElementType;
  switch (type.group) {
    case TypeGroup::c_integer:
    case TypeGroup::fortran_integer: return sized({int8, int16, int32, int64}, extent);
    case TypeGroup::c_unsigned: return sized({uint8, uint16, uint32, uint64}, extent);
    case TypeGroup::floating: return sized({float32, float64, long_double}, extent);
    case TypeGroup::complex: return sized({complex_float, complex_double, complex_long_double}, extent);
    case TypeGroup::logical: return sized({logical8, logical16, logical32, logical64}, extent);
    case TypeGroup::byte: return byte;
    case TypeGroup::located: return sized({type.located}, extent);
  }
  return std::nullopt;
}

// Logical operations are for C's integers alone.
bool is_logical(ReduceOperation operation) {
  return operation == ReduceOperation::land || operation == ReduceOperation::lor || operation == ReduceOperation::lxor;
}

}  // namespace

std::optional<Reduction> reduction_of(MPI_Op operation, MPI_Datatype type, const TypeShape& shape) {
  if (!shape.predefined) return std::nullopt;
  const std::optional<ReduceOperation> known_operation = find_operation(operation);
  const KnownType* known_type = known_operation ? find_type(type) : nullptr;
  if (known_type == nullptr) return std::nullopt;
  if (known_type->group == TypeGroup::fortran_integer && is_logical(*known_operation)) return std::nullopt;
  const std::optional<ElementType> element = element_of(*known_type, shape.extent);
  if (!element || !is_defined(*known_operation, row_of(*element).kind)) return std::nullopt;
  return Reduction{*known_operation, *element};
}

TypeShape shape_of(const Reduction& reduction) {
  TypeShape shape;
  shape.size = shape.extent = static_cast<std::int64_t>(reduction.element_bytes());
  shape.dense = shape.predefined = shape.committed = true;
  return shape;
}

}  // namespace outrigger::mpi
