// Calls that hand data to the MPI, by which other processes may reach them: they end all guards
// (mpi/windows/guards.hpp). Collectives and MPI_Start do so by themselves, and the creation of windows that
// memory/alloc_mem.cpp has. Those that block are published with live data (present_message.hpp).
//
// Without guards and live data these calls cost one load: each jumps to where `next` says. That is the MPI's function
// after the first call, unless there may be guards or a profiling tool.
#pragma once

namespace outrigger::mpi {

// Each such call finds out again what it has to do. Before other threads call the MPI.
void settle_data_calls_again();

}  // namespace outrigger::mpi
