// A program that is measured in virtual time: all ranks begin together but for some skew, post a collective, compute,
// and wait; and again. The next round begins when all have ended.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "sim/model/machine.hpp"
#include "sim/timing/side.hpp"

namespace outrigger::sim::timing {

struct Rounds {
  std::uint32_t count = 1;
  std::uint64_t work_ns = 0;  // of each rank, without noise
  std::uint64_t seed = 1;
  std::uint64_t most_events = 0;  // a run of more is given up
};

// Of each round, from the moment that the ranks agreed on to the end of the last.
struct RoundTimes {
  std::vector<std::uint64_t> total_ns;
  std::vector<std::uint64_t> work_alone_ns;  // as long as the same work takes without a collective
  std::vector<double> in_mpi_ns;             // mean of the ranks
};

[[nodiscard]] Result<RoundTimes> run_rounds(model::Machine& machine, Side& side, const Rounds& rounds);

}  // namespace outrigger::sim::timing
