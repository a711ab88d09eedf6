// MPI_Scan, MPI_Iscan and MPI_Scan_init.
#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_scan(Job& job, Form form, const void* send_buffer, void* receive_buffer, Count count, MPI_Datatype type,
                  MPI_Op operation, MPI_Comm communicator, MPI_Request* request) {
  const auto sides_on = [&](const CommState& /*comm*/) -> std::optional<ReducedSides> {
    return ReducedSides{send_buffer, count, receive_buffer, count,
                        reduces_in_place(send_buffer, receive_buffer, count != 0)};
  };
  const ReductionCall<Count> call{Collective::iscan, form, count, type, operation, communicator};
  return offload_reduction(
      job, call, request, [&] { return valid_vectors(job, send_buffer, receive_buffer, count, type); }, sides_on);
}

}  // namespace

OUTRIGGER_ENTRY(Iscan, 7, CountedNonblocking<CollectiveCall::scan, &offload_scan<int>>)
OUTRIGGER_ENTRY(Scan, 6, CountedBlocking<CollectiveCall::scan, &offload_scan<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Scan_init, 8, CountedPersistent<CollectiveCall::scan, &offload_scan<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iscan_c, 7, CountedNonblocking<CollectiveCall::scan, &offload_scan<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Scan_c, 6, CountedBlocking<CollectiveCall::scan, &offload_scan<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Scan_init_c, 8, CountedPersistent<CollectiveCall::scan, &offload_scan<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
