// The calls of a job's ranks, for either side: communicators, and calls on them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/collective.hpp"
#include "sim/baselines/baselines.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::timing {

// As made by MPI_Comm_split: each rank is in one of several groups.
struct Communicator {
  std::vector<std::shared_ptr<const std::vector<WorldRank>>> groups;
  std::vector<std::uint32_t> group_of;            // by world rank
  std::vector<std::uint32_t> place_of;            // by world rank: rank in its group
  std::vector<std::vector<GroupRank>> neighbors;  // by world rank, ascending, symmetric; may be empty
};

// `groups` are lists of world ranks; each rank is in one of them.
[[nodiscard]] Communicator make_communicator(const std::vector<std::vector<std::uint32_t>>& groups);

struct Call {
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;  // of service processes
  const baselines::Baseline* native = nullptr;
  std::uint64_t bytes = 0;  // of a block; for broadcast, reduce and allreduce of the whole buffer
  std::uint32_t root = 0;   // of the group
  std::uint32_t communicator = 0;
  std::vector<std::uint64_t> by_distance = {};  // only for ialltoallv: bytes for the rank at this distance in the group
};

struct Workload {
  std::vector<Communicator> communicators;
  std::vector<Call> calls;
};

// A call of all ranks.
[[nodiscard]] Workload one_call(const Places& places, const Call& call);

// Total size of the buffers of one node's ranks; each call has its own.
[[nodiscard]] std::uint64_t bytes_on_a_node(const Workload& workload, const JobShape& shape);

// True if posted() supports it.
[[nodiscard]] bool can_post(Collective collective);

// A rank's post to its service process. `group`: the group's number in the whole workload.
[[nodiscard]] engine::PostedOperation posted(const Workload& workload, const Call& call, std::uint32_t rank,
                                             std::uint64_t group, std::uint64_t sequence);

// Numbers of operations: each group counts its own, and all members count alike.
class Numbering {
 public:
  Numbering(const Workload& workload, std::uint32_t ranks);

  struct Number {
    std::uint64_t group = 0;  // in the whole workload
    std::uint64_t sequence = 0;
  };
  [[nodiscard]] Number next(const Workload& workload, const Call& call, std::uint32_t rank);

 private:
  std::vector<std::uint64_t> first_group_;          // by communicator
  std::vector<std::vector<std::uint64_t>> counts_;  // by communicator and rank
};

}  // namespace outrigger::sim::timing
