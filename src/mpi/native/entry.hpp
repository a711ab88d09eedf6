// How an intercepted function is defined: OUTRIGGER_ENTRY(Wait, (Word request, Word status)) { body } defines the
// symbols MPI_Wait and PMPI_Wait (some bindings call one, some the other). Arguments are machine words, so that a call
// can be passed on unharmed to an MPI with another ABI; argument<T>() gives them back their type.
#pragma once

#include <type_traits>

#include "mpi/native/origin.hpp"
#include "mpi/native/real.hpp"

#define OUTRIGGER_EXPORT __attribute__((visibility("default")))

#define OUTRIGGER_ENTRY(name, parameters)                                                     \
  extern "C" OUTRIGGER_EXPORT int outrigger_entry_##name parameters __asm__("MPI_" #name);    \
  extern "C" OUTRIGGER_EXPORT int outrigger_profiled_##name parameters __asm__("PMPI_" #name) \
      __attribute__((alias("MPI_" #name)));                                                   \
  int outrigger_entry_##name parameters

// Inside an entry: the call comes from the MPI library itself.
#define OUTRIGGER_CALLED_BY_MPI() (::outrigger::mpi::called_by_mpi(__builtin_return_address(0)))

namespace outrigger::mpi {

template <class T>
[[nodiscard]] T argument(Word word) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(word);
  } else {
    return static_cast<T>(word);
  }
}

}  // namespace outrigger::mpi
