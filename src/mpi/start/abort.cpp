// In MPI_Abort MPICH 4.0 sends each member of a communicator a message and waits until all have taken it; only for
// MPI_COMM_WORLD it calls its launcher instead. Natively the members are often inside MPI, as their collective waits
// for the aborting rank. An offloaded collective may end without that rank, so they compute or sleep, and the job would
// hang. The launcher ends the whole job after an abort on any communicator.
#include "mpi/start/abort.hpp"

#include "mpi/communicators/comm_state.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"

namespace outrigger::mpi {
namespace {

#if defined(OUTRIGGER_ABI_OPENMPI)
constexpr bool kMayWaitForMembers = false;
#else
constexpr bool kMayWaitForMembers = true;
#endif

}  // namespace

Word communicator_to_abort(Word comm) {
  const Job* job = kMayWaitForMembers ? current_job() : nullptr;
  const CommState* state = job == nullptr ? nullptr : state_of(*job, argument<MPI_Comm>(comm));
  if (state == nullptr || state->size() == 1) return comm;
  return static_cast<Word>(handle_key(constants().comm_world));
}

}  // namespace outrigger::mpi
