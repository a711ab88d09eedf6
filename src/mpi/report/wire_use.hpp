// How the job's data went between nodes, put together from what the service processes told their ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/wire_route.hpp"

namespace outrigger::mpi {

struct Job;

struct WireUse {
  WireRoute route;
  std::uint32_t nodes = 0;  // whose service processes used it
};

// Collective over the world. World rank 0 gets the whole job's, the others something less.
[[nodiscard]] std::vector<WireUse> gather_wire_use(const Job& job);

// "rdma (rc_verbs/mlx5_0:1)"; says on how many nodes where it was not all of them.
[[nodiscard]] std::string wire_text(const std::vector<WireUse>& uses, std::uint32_t nodes);

}  // namespace outrigger::mpi
