// The MPI's own functions, whatever library defines PMPI_X, too: CALL(Barrier, comm) calls the MPI's own where a
// variable `native` is true, and MPI_Barrier otherwise.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// The library that defines MPI, which others may be loaded before.
inline void* the_mpi() {
  static void* handle = [] {
    std::string path;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* found) {
          const char* slash = std::strrchr(info->dlpi_name, '/');
          const char* name = slash == nullptr ? info->dlpi_name : slash + 1;
          auto* text = static_cast<std::string*>(found);
          if (std::strncmp(name, "libmpi", 6) != 0) return 0;
          void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
          if (library != nullptr && dlsym(library, "PMPI_Alltoallv") != nullptr) *text = info->dlpi_name;
          return 0;
        },
        &path);
    return dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

template <class Function>
Function* native_of(Function* /*same type*/, const char* name) {
  void* address = dlsym(the_mpi(), name);
  if (address == nullptr) {
    std::printf("the MPI has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(address);
}
#define CALL(name, ...)                                                       \
  do {                                                                        \
    static auto* const native_##name = native_of(&MPI_##name, "PMPI_" #name); \
    native ? native_##name(__VA_ARGS__) : MPI_##name(__VA_ARGS__);            \
  } while (false)
