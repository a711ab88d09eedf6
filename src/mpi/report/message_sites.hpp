// Finds where the program calls, as call_sites.hpp does, for calls so short that neither a lock nor an unwinding may be
// part of each. Ways into the MPI are kept for each caller and never removed: a call comes a known way if all return
// addresses of that way are where they were, counted from the call's frame.
//
// Thread rule: any thread. Only while calls are counted (ledger_rows.hpp).
#pragma once

#include "mpi/report/call_ways.hpp"

namespace outrigger::mpi {

[[nodiscard]] CallPlaces message_places(const CallOrigin& origin);

}  // namespace outrigger::mpi
