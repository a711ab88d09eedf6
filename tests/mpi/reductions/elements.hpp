// Predefined operations and datatypes of MPI, values of these, and their expected results.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../differential/random.hpp"

namespace reductions {

// Kind of a type's values, which decides its operations.
enum class Values { integer, fortran_integer, floating, complex, logical, byte, located };

// The C type of an element's number, or of its value if it has an index.
enum class Number { i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, f80 };

struct Element {
  std::string name;
  MPI_Datatype type;
  Values values;
  Number number;
  Number index;           // of located ones
  std::size_t bytes;      // distance between elements
  std::size_t second_at;  // the imaginary part or index; 0: none
};

enum class Combine { sum, prod, max, min, land, lor, lxor, band, bor, bxor, maxloc, minloc, own };

struct Operator {
  std::string name;
  MPI_Op op;
  Combine combine;
};

// Those that the loaded MPI has.
[[nodiscard]] const std::vector<Element>& elements();
[[nodiscard]] std::vector<Operator> operators_of(const Element& element);

// Never NaN, infinite, or zero if its sign could matter; products stay finite. `wild`: integers of any bits. Otherwise
// no operation overflows, and no value is so large that some MPIs treat it as negative.
void fill(const Element& element, const Operator& op, bool wild, std::byte* at, std::size_t count,
          differential::Random random);

// so_far = so_far op next.
void reduce(const Element& element, const Operator& op, std::byte* so_far, const std::byte* next, std::size_t count);

// The order of operands matters in sums and products of these.
[[nodiscard]] bool rounds(const Element& element, const Operator& op);

// Copies the undefined bytes between the numbers of elements.
void copy_gaps(const Element& element, const std::byte* from, std::byte* to, std::size_t count);

// True if they differ no more than by another order of `ranks` operands.
[[nodiscard]] bool near(const Element& element, const std::byte* one, const std::byte* other, std::size_t count,
                        int ranks);

}  // namespace reductions
