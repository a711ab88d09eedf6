#include "memory.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "fail.hpp"

namespace fft3d {

void Release::operator()(Complex* data) const {
  if (memory == Memory::kMalloc) {
    std::free(data);
  } else {
    MPI_Free_mem(data);
  }
}

Array allocate(Memory memory, std::size_t elements) {
  const std::size_t bytes = std::max<std::size_t>(elements, 1) * sizeof(Complex);
  void* data = nullptr;
  if (memory == Memory::kMalloc) {
    data = std::malloc(bytes);
  } else if (MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &data) != MPI_SUCCESS) {
    data = nullptr;
  }
  if (data == nullptr) fail("no memory for " + std::to_string(bytes) + " bytes; take a smaller --grid");
  auto* const first = static_cast<Complex*>(data);
  std::uninitialized_fill_n(first, std::max<std::size_t>(elements, 1), Complex(0));
  return Array(first, Release{memory});
}

}  // namespace fft3d
