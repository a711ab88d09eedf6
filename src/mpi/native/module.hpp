// Which loaded library an address belongs to.
#pragma once

#include <dlfcn.h>

namespace outrigger::mpi {

// Where it is loaded; nullptr: no library has the address.
[[nodiscard]] inline const void* module_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace outrigger::mpi
