// Which reductions ranks may do by themselves: those that give the bits that the MPI gives.
//
// Floating-point sums and products depend on the order in which an MPI adds. They are done in that order once it is
// known (team_orders.hpp), or, if the user allows any order, in the order of ranks.
#pragma once

#include "mpi/job/config.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::mpi {

// The result has the MPI's bits in whatever order contributions are reduced.
[[nodiscard]] bool has_native_bits(const Reduction& reduction);

enum class RankOrder : std::uint8_t {
  ranks,    // the order of ranks
  natives,  // the MPI's, where it is known
  none,     // ranks cannot do it
};
[[nodiscard]] RankOrder order_for(const Reduction& reduction, Config::Sums sums);

}  // namespace outrigger::mpi
