// MPI_Barrier, MPI_Ibarrier and MPI_Barrier_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

bool offload_barrier(Job& job, Form form, MPI_Comm communicator, MPI_Request* request) {
  const steer::CollectiveForm call = form_of(Collective::ibarrier, form);
  const MPI_Datatype type = constants().byte;  // of no elements
  if (form != Form::persistent && passes(job, call, communicator, 0, type)) return false;
  CallTimer timer(CallTimer::Kind::post);
  if (request == nullptr) return decline();
  const TypeShape shape = shape_of(job, type);
  const Offload offload = offload_on(job, form, communicator, Collective::ibarrier, 0);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, 0, type, shape);
  Operation& operation = new_operation(Collective::ibarrier, offload, false);
  operation.send.set_shared(nullptr, 0, type, shape, comm->size());
  operation.receive.set_shared(nullptr, 0, type, shape, comm->size());
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ibarrier, 2, CountedNonblocking<CollectiveCall::barrier, &offload_barrier>)
OUTRIGGER_ENTRY(Barrier, 1, CountedBlocking<CollectiveCall::barrier, &offload_barrier>)
OUTRIGGER_PERSISTENT_ENTRY(Barrier_init, 3, CountedPersistent<CollectiveCall::barrier, &offload_barrier>)

}  // namespace outrigger::mpi
