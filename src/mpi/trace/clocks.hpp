// Offset of another machine's clock to that of world rank 0, by the fastest of several round trips. Ranks with
// the same kernel's clock get the same result, and exactly 0 if it is rank 0's.
//
// Uses messages that no receive of the program can match (hidden_message.hpp).
#pragma once

#include <cstdint>

#include "trace/event.hpp"

namespace outrigger::mpi {

// Collective over the world, in MPI_Init or MPI_Finalize. Not measured if the MPI lacks such messages.
[[nodiscard]] trace::ClockSample compare_clocks(std::uint32_t world_rank, std::uint32_t world_size);

}  // namespace outrigger::mpi
