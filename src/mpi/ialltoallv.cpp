#include "mpi/entry.hpp"
#include "mpi/ialltoall.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offloaded(Word send_buffer, Word send_counts, Word send_displacements, Word send_type, Word receive_buffer,
               Word receive_counts, Word receive_displacements, Word receive_type, Word comm, Word request) {
  return offload_alltoallv(
      *current_job(), AlltoallvArguments<Count, Displacement>{
                          argument<const void*>(send_buffer), argument<const Count*>(send_counts),
                          argument<const Displacement*>(send_displacements), argument<MPI_Datatype>(send_type),
                          argument<void*>(receive_buffer), argument<const Count*>(receive_counts),
                          argument<const Displacement*>(receive_displacements), argument<MPI_Datatype>(receive_type),
                          argument<MPI_Comm>(comm), argument<MPI_Request*>(request)});
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoallv,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_type, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_type, Word comm, Word request)) {
  if (current_job() != nullptr && !OUTRIGGER_CALLED_BY_MPI() &&
      offloaded<int, int>(send_buffer, send_counts, send_displacements, send_type, receive_buffer, receive_counts,
                          receive_displacements, receive_type, comm, request)) {
    return MPI_SUCCESS;
  }
  return pass(Call::Ialltoallv, send_buffer, send_counts, send_displacements, send_type, receive_buffer, receive_counts,
              receive_displacements, receive_type, comm, request);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoallv_c,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_type, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_type, Word comm, Word request)) {
  if (current_job() != nullptr && !OUTRIGGER_CALLED_BY_MPI() &&
      offloaded<MPI_Count, MPI_Aint>(send_buffer, send_counts, send_displacements, send_type, receive_buffer,
                                     receive_counts, receive_displacements, receive_type, comm, request)) {
    return MPI_SUCCESS;
  }
  return pass(Call::Ialltoallv_c, send_buffer, send_counts, send_displacements, send_type, receive_buffer,
              receive_counts, receive_displacements, receive_type, comm, request);
}
#endif

}  // namespace outrigger::mpi
