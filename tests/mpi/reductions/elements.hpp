// Operations and datatypes that MPI predefines, values of these, and what they should come to.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../differential/random.hpp"

namespace reductions {

// How the values of a type are made, and which operations it has.
enum class Values { integer, fortran_integer, floating, complex, logical, byte, located };

// The C type of an element's number, or of its value where it has an index.
enum class Number { i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, f80 };

struct Element {
  std::string name;
  MPI_Datatype type;
  Values values;
  Number number;
  Number index;           // of located ones
  std::size_t bytes;      // from one to the next
  std::size_t second_at;  // the imaginary part or index; 0: there is none
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

// Never NaN, infinite or zero where the sign of a zero could matter; products stay finite. `wild`: integers of any
// bits. Else no operation leaves the range of the type, and nothing is so large that some MPIs take it for negative.
void fill(const Element& element, const Operator& op, bool wild, std::byte* at, std::size_t count,
          differential::Random random);

// so_far = so_far op next.
void reduce(const Element& element, const Operator& op, std::byte* so_far, const std::byte* next, std::size_t count);

// In sums and products of these the order of the operands shows.
[[nodiscard]] bool rounds(const Element& element, const Operator& op);

// Copies what lies between the numbers of elements, which nobody defines.
void copy_gaps(const Element& element, const std::byte* from, std::byte* to, std::size_t count);

// The two are as near as another order of `ranks` operands may bring them.
[[nodiscard]] bool near(const Element& element, const std::byte* one, const std::byte* other, std::size_t count,
                        int ranks);

}  // namespace reductions
