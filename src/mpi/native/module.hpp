// Finds the loaded library that contains an address.
#pragma once

#include <dlfcn.h>

namespace outrigger::mpi {

// The library's base address; nullptr if no library has the address.
[[nodiscard]] inline const void* module_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace outrigger::mpi
