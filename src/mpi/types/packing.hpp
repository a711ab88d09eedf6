// Packs elements of a datatype into contiguous bytes in typemap order, and unpacks them. There is no limit of size:
// elements that are too large for MPI_Pack go as a message of the rank to itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/native/abi.hpp"
#include "mpi/types/datatype.hpp"

namespace outrigger::mpi {

// Adding to an address that may be MPI_BOTTOM.
[[nodiscard]] inline std::byte* address_of(const void* base, std::int64_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(offset));
}

struct TypedElements {
  std::byte* address;  // may be MPI_BOTTOM
  std::int64_t count;
  MPI_Datatype type;
  const TypeShape& shape;

  [[nodiscard]] std::int64_t bytes() const { return count * shape.size; }
};

enum class Packing { pack, unpack };

// Bytes of one MPI_Pack, which counts in int. Larger elements go as a message of the rank to itself.
inline constexpr std::int64_t kPackChunkBytes = 1LL << 30;

// Copies between the elements and `packed`, which has as many bytes. Ends the program if the MPI cannot.
void copy_packed(Packing direction, const TypedElements& elements, std::byte* packed, MPI_Comm comm);

}  // namespace outrigger::mpi
