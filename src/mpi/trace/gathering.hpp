// The events of all ranks in one file, by way of the program's own MPI: nothing need be shared between hosts.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace outrigger::mpi {

// Collective over the world: `mine` of each rank, one after the other, to a file of world rank 0's host. True: it is
// written. World rank 0 says why not.
[[nodiscard]] bool gather_parts(std::span<const std::byte> mine, const std::string& path);

}  // namespace outrigger::mpi
