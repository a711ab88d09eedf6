// The only place that includes mpi.h, and only for its types and numbers. This source is compiled once per MPI ABI.
//
// The library is also loaded into processes without MPI, so it must not refer to MPI symbols. Functions are called
// through real(). Under Open MPI the predefined handles are addresses of data symbols: their macros call a look-up
// here, and only constants.cpp and types/reducible.cpp use them. All other code takes them from constants().
#pragma once

#include <mpi.h>

#include <cstdint>
#include <type_traits>

#if defined(OUTRIGGER_ABI_OPENMPI)
#if !defined(OMPI_MAJOR_VERSION)
#error "the library for Open MPI is compiled with the header of another MPI"
#endif
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) (static_cast<type>(::outrigger::mpi::data_symbol(#global)))
#elif defined(OUTRIGGER_ABI_MPICH)
#if !defined(MPICH_NUMVERSION)
#error "the library for MPICH is compiled with the header of another MPI"
#endif
#elif defined(OUTRIGGER_ABI_MPIABI)
#if !defined(MPI_ABI_VERSION)
#error "the library for the MPI standard ABI is compiled with the header of another ABI"
#endif
#else
#error "no MPI ABI chosen"
#endif

// Calls of MPI 4: large counts, idup_with_info.
#define OUTRIGGER_MPI4 (MPI_VERSION >= 4)

namespace outrigger::mpi {

#if defined(OUTRIGGER_ABI_OPENMPI)
inline constexpr const char* kAbiName = "Open MPI";
#elif defined(OUTRIGGER_ABI_MPICH)
inline constexpr const char* kAbiName = "MPICH";
#else
inline constexpr const char* kAbiName = "the MPI standard ABI";
#endif

// Combiner of MPI_Type_get_envelope for predefined types of a value and an index (MPI 4.1). The MPI may be newer than
// the header here.
#if defined(OUTRIGGER_ABI_OPENMPI)
inline constexpr int kCombinerValueIndex = -1;  // not defined yet
#elif defined(OUTRIGGER_ABI_MPICH)
inline constexpr int kCombinerValueIndex = 20;
#else
inline constexpr int kCombinerValueIndex = MPI_COMBINER_VALUE_INDEX;
#endif

// The address of a data symbol of the loaded libmpi; ends the program if there is none.
[[nodiscard]] void* data_symbol(const char* name);
// The same; nullptr if there is none.
[[nodiscard]] void* data_symbol_if_there(const char* name);
// A function that only some MPIs of this ABI have, or that another library defines; nullptr if there is none.
[[nodiscard]] void* function_if_there(const char* name);
// A function in the calling library or its dependencies, never one of this library. Aborts if there is none.
[[nodiscard]] void* callers_symbol(const char* name, const void* return_address);

// A handle as a number, for hashing and comparison.
template <class Handle>
[[nodiscard]] std::uint64_t handle_key(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uintptr_t>(handle);
  } else {
    return static_cast<std::uint32_t>(handle);
  }
}

}  // namespace outrigger::mpi
