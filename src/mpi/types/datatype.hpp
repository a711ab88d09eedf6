// Is one element of a datatype a single piece of memory whose bytes are in typemap order? Then blocks of it need no
// packing.
#pragma once

#include <cstdint>

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct Job;

struct TypeShape {
  std::int64_t size = 0;    // bytes of data in one element
  std::int64_t extent = 0;  // from one element to the next
  std::int64_t first = 0;   // offset of the first byte (true lower bound)
  bool dense = false;       // the bytes are [first, first + size), in typemap order
  bool predefined = false;  // needs no reference: cannot be freed
  bool committed = false;

  // `count` elements are one dense piece.
  [[nodiscard]] bool dense_for(std::int64_t count) const { return dense && (count <= 1 || extent == size); }
};

[[nodiscard]] bool register_datatypes(Job& job);
void forget_datatypes(Job& job);

// Found once per type (cached: on an attribute for derived types). The type must not be MPI_DATATYPE_NULL. Any thread.
[[nodiscard]] TypeShape shape_of(const Job& job, MPI_Datatype type);

}  // namespace outrigger::mpi
