// How the ranks of a communicator that are on one node come to share memory, once, in one of its blocking collectives.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "intranode/control_area.hpp"
#include "intranode/posts_area.hpp"
#include "mpi/intranode/leaders.hpp"
#include "mpi/intranode/nodes_map.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct MeetingPlace {
  intranode::ControlArea area;
  std::vector<pid_t> pids;                      // of this node's ranks
  std::optional<Leaders> leaders;               // of several nodes
  std::optional<intranode::PostsMemory> posts;  // for nonblocking collectives, if all have mapped it
};

// Nothing: the ranks of a node cannot, or one has no room for it. The same on all ranks of the communicator. Collective
// over it, an intracommunicator, by the MPI's own collectives. `wants_posts`: there are posts if all ranks want them.
[[nodiscard]] std::optional<MeetingPlace> meet(MPI_Comm comm, std::uint32_t rank, const NodesMap& map, bool has_room,
                                               bool wants_posts);

}  // namespace outrigger::mpi
