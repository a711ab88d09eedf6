// Arrays of complex numbers from malloc or MPI_Alloc_mem.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>

namespace fft3d {

using Complex = std::complex<double>;

enum class Memory { kMalloc, kAllocMem };

// Frees memory by its allocator; MPI_Alloc_mem's before MPI_Finalize.
struct Release {
  Memory memory;
  void operator()(Complex* data) const;
};

using Array = std::unique_ptr<Complex[], Release>;

// `elements` zeros; ends the job if there is no memory.
[[nodiscard]] Array allocate(Memory memory, std::size_t elements);

}  // namespace fft3d
