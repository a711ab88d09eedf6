// MPICH 4.0 sends each member of a communicator a message in MPI_Abort, and goes on only when all have taken it; of
// MPI_COMM_WORLD alone it tells its launcher instead. Natively members are often still inside MPI then, because their
// collective waits for the rank that aborts. An offloaded one ends without that rank, and they compute or sleep: the
// job would stand still. Whatever the communicator, its launcher ends the whole job once a process of it has aborted.
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
