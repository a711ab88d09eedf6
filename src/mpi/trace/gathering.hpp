// Gathers the events of all ranks in one file by the program's own MPI: hosts need no shared file system.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace outrigger::mpi {

// Collective over the world: concatenates each rank's `mine` in a file on world rank 0's host. True: it is written.
// World rank 0 prints the reason of a failure.
[[nodiscard]] bool gather_parts(std::span<const std::byte> mine, const std::string& path);

}  // namespace outrigger::mpi
