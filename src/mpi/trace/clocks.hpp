// What the clock of another machine says when that of world rank 0 says something: by messages there and back, of which
// the one that took least counts. Ranks that have one kernel's clock have the same answer, and exactly 0 where it is
// rank 0's.
//
// By messages that no receive of the program can match (hidden_message.hpp).
#pragma once

#include <cstdint>

#include "trace/event.hpp"

namespace outrigger::mpi {

// Collective over the world, in MPI_Init or MPI_Finalize. Not measured, where the MPI has no such messages.
[[nodiscard]] trace::ClockSample compare_clocks(std::uint32_t world_rank, std::uint32_t world_size);

}  // namespace outrigger::mpi
