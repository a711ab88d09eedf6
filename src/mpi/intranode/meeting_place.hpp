// How the members of a communicator come to share memory, once, in one of its blocking collectives.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "intranode/control_area.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct MeetingPlace {
  intranode::ControlArea area;
  std::vector<pid_t> pids;  // of the members
};

// Nothing: they cannot, or one of them has no room for it. The same on all members. Collective over the communicator,
// an intracommunicator, by the MPI's own collectives.
[[nodiscard]] std::optional<MeetingPlace> meet(MPI_Comm comm, std::uint32_t rank, std::uint32_t size, bool has_room);

}  // namespace outrigger::mpi
