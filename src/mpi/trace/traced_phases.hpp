// The program's named phases (mpi/report/phases.hpp) in the trace. A phase is recorded at its end, if it began while
// there was a trace.
//
// Thread rule: any thread, each for itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrigger::mpi {

struct TracedPhase {
  std::int64_t began_ns = 0;  // 0: there was no trace
  std::uint16_t name = 0;     // of trace::Header::phase_names
};

[[nodiscard]] TracedPhase begin_traced_phase(const char* name);
// `depth`: number of enclosing phases.
void end_traced_phase(const TracedPhase& phase, std::size_t depth);

}  // namespace outrigger::mpi
