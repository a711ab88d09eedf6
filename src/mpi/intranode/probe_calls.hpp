// The MPI's own reductions of whole vectors, on the communicator of a call of the program, to learn and to verify
// orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "intranode/sums/order_learner.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// The same call with other contributions. Some are in place. `call` outlives it.
[[nodiscard]] intranode::NativeReduction native_of(MPI_Comm comm, const TeamArguments& call, const TeamPlace& team);
// Is the order of the call's root or members known to be the one of calls in place?
[[nodiscard]] bool is_probed_in_place(const TeamArguments& call);

// Elements of each member's block.
[[nodiscard]] std::vector<int> counts_of(const TeamArguments& call, std::uint32_t members);
// Vectors of a verification: so many that short ones show the order, too.
[[nodiscard]] std::size_t vectors_for(const TeamArguments& call, std::uint32_t members);

}  // namespace outrigger::mpi
