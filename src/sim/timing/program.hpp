// A measured program in virtual time: all ranks begin together except for some skew, post a collective, compute, and
// wait. The next round begins when all have ended.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "sim/model/machine.hpp"
#include "sim/timing/side.hpp"

namespace outrigger::sim::timing {

struct Rounds {
  std::uint32_t count = 1;
  std::uint64_t work_ns = 0;  // per rank, without noise
  std::uint64_t seed = 1;
  std::uint64_t most_events = 0;  // limit of a run
};

// By round, from the agreed start to the end of the last rank.
struct RoundTimes {
  std::vector<std::uint64_t> total_ns;
  std::vector<std::uint64_t> work_alone_ns;  // the time of the same work without a collective
  std::vector<double> in_mpi_ns;             // mean of the ranks
};

[[nodiscard]] Result<RoundTimes> run_rounds(model::Machine& machine, Side& side, const Rounds& rounds);

}  // namespace outrigger::sim::timing
