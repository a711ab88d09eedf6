// The MPI ABIs: each one's preload library, liboutrigger-<abi>.so, and the libraries that its programs load.
#pragma once

#include <array>
#include <string_view>

namespace outrigger {

struct LibraryRow {
  std::string_view abi;
  std::string_view title;
  std::string_view library;
  std::array<const char*, 2> sonames;  // nullptr: no more
};
inline constexpr std::array kLibraries{
    LibraryRow{"openmpi", "Open MPI's ABI", "liboutrigger-openmpi.so", {"libmpi.so.40", nullptr}},
    LibraryRow{"mpich", "MPICH's ABI", "liboutrigger-mpich.so", {"libmpich.so.12", "libmpi.so.12"}},
    LibraryRow{"mpiabi", "the standard ABI", "liboutrigger-mpiabi.so", {"libmpi_abi.so.1", "libmpi_abi.so.0"}},
};

}  // namespace outrigger
