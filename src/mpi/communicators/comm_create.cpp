// The constructors of communicators. Duplicates get their state from the attribute's copy callback, the others here.
#include "mpi/communicators/comm_state.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

// The new communicator gets its state, on all its ranks together.
int adopted(int code, Word made) {
  Job* job = current_job();
  if (code == MPI_SUCCESS && job != nullptr && made != 0) adopt(*job, *argument<MPI_Comm*>(made));
  return code;
}

}  // namespace

OUTRIGGER_ENTRY(Comm_dup, (Word comm, Word made)) {
  const DuplicateScope scope(!OUTRIGGER_CALLED_BY_MPI());
  return pass(Call::Comm_dup, comm, made);
}

OUTRIGGER_ENTRY(Comm_idup, (Word comm, Word made, Word request)) {
  const DuplicateScope scope(!OUTRIGGER_CALLED_BY_MPI());
  return pass(Call::Comm_idup, comm, made, request);
}

#if OUTRIGGER_MPI4
// Nothing collective may block here, so the info cannot be agreed on: the parent's choice holds.
OUTRIGGER_ENTRY(Comm_idup_with_info, (Word comm, Word info, Word made, Word request)) {
  const DuplicateScope scope(!OUTRIGGER_CALLED_BY_MPI());
  return pass(Call::Comm_idup_with_info, comm, info, made, request);
}
#endif

OUTRIGGER_ENTRY(Comm_dup_with_info, (Word comm, Word info, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const DuplicateScope scope(!inside);
  const int code = pass(Call::Comm_dup_with_info, comm, info, made);
  Job* job = current_job();
  if (code == MPI_SUCCESS && job != nullptr && !inside) {
    apply_info(*job, *argument<MPI_Comm*>(made), argument<MPI_Info>(info));
  }
  return code;
}

OUTRIGGER_ENTRY(Comm_split, (Word comm, Word color, Word key, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Comm_split, comm, color, key, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Comm_split_type, (Word comm, Word type, Word key, Word info, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Comm_split_type, comm, type, key, info, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Comm_create, (Word comm, Word group, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Comm_create, comm, group, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Comm_create_group, (Word comm, Word group, Word tag, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Comm_create_group, comm, group, tag, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Cart_create, (Word comm, Word dimensions, Word sizes, Word periods, Word reorder, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Cart_create, comm, dimensions, sizes, periods, reorder, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Cart_sub, (Word comm, Word remaining, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Cart_sub, comm, remaining, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Graph_create, (Word comm, Word nodes, Word index, Word edges, Word reorder, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Graph_create, comm, nodes, index, edges, reorder, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Dist_graph_create, (Word comm, Word nodes, Word sources, Word degrees, Word destinations, Word weights,
                                    Word info, Word reorder, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code =
      pass(Call::Dist_graph_create, comm, nodes, sources, degrees, destinations, weights, info, reorder, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Dist_graph_create_adjacent,
                (Word comm, Word in_degree, Word sources, Word source_weights, Word out_degree, Word destinations,
                 Word destination_weights, Word info, Word reorder, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Dist_graph_create_adjacent, comm, in_degree, sources, source_weights, out_degree,
                        destinations, destination_weights, info, reorder, made);
  return inside ? code : adopted(code, made);
}

OUTRIGGER_ENTRY(Intercomm_merge, (Word comm, Word high, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Intercomm_merge, comm, high, made);
  return inside ? code : adopted(code, made);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Comm_create_from_group, (Word group, Word tag, Word info, Word errhandler, Word made)) {
  const bool inside = OUTRIGGER_CALLED_BY_MPI();
  const int code = pass(Call::Comm_create_from_group, group, tag, info, errhandler, made);
  return inside ? code : adopted(code, made);
}
#endif

}  // namespace outrigger::mpi
