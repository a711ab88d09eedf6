#include "mpi/ialltoall.hpp"

#include "mpi/entry.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offloaded(Word send_buffer, Word send_count, Word send_type, Word receive_buffer, Word receive_count,
               Word receive_type, Word comm, Word request) {
  return offload_alltoall(*current_job(),
                          AlltoallArguments<Count>{argument<const void*>(send_buffer), argument<Count>(send_count),
                                                   argument<MPI_Datatype>(send_type), argument<void*>(receive_buffer),
                                                   argument<Count>(receive_count), argument<MPI_Datatype>(receive_type),
                                                   argument<MPI_Comm>(comm), argument<MPI_Request*>(request)});
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoall, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer, Word receive_count,
                            Word receive_type, Word comm, Word request)) {
  if (current_job() != nullptr && !OUTRIGGER_CALLED_BY_MPI() &&
      offloaded<int>(send_buffer, send_count, send_type, receive_buffer, receive_count, receive_type, comm, request)) {
    return MPI_SUCCESS;
  }
  return pass(Call::Ialltoall, send_buffer, send_count, send_type, receive_buffer, receive_count, receive_type, comm,
              request);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoall_c, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer,
                              Word receive_count, Word receive_type, Word comm, Word request)) {
  if (current_job() != nullptr && !OUTRIGGER_CALLED_BY_MPI() &&
      offloaded<MPI_Count>(send_buffer, send_count, send_type, receive_buffer, receive_count, receive_type, comm,
                           request)) {
    return MPI_SUCCESS;
  }
  return pass(Call::Ialltoall_c, send_buffer, send_count, send_type, receive_buffer, receive_count, receive_type, comm,
              request);
}
#endif

}  // namespace outrigger::mpi
