// How the ranks of a communicator that are on one node come to share memory, once, in one of its blocking collectives.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "intranode/control_area.hpp"
#include "intranode/core_place.hpp"
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
  std::vector<intranode::CorePlace> cores;      // of this node's ranks, if each has a core; otherwise empty
};

// A rank that would meet others.
struct MeetingRank {
  bool has_room = false;
  bool has_own_core = false;
  bool wants_posts = false;  // there are posts if all ranks want them
};

// Nothing: the ranks of a node cannot, or one has no room for it. The same on all ranks of the communicator. Collective
// over it, an intracommunicator, by the MPI's own collectives.
[[nodiscard]] std::optional<MeetingPlace> meet(MPI_Comm comm, std::uint32_t rank, const NodesMap& map,
                                               const MeetingRank& mine);

}  // namespace outrigger::mpi
