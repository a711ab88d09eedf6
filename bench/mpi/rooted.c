#include "rooted.h"

bool gathers_at_root(Collective collective) {
  return collective == kIgather || collective == kIgatherv;
}

bool is_rooted(Collective collective) {
  return gathers_at_root(collective) || collective == kIscatter || collective == kIscatterv;
}

int rooted_blocks_sent(const Workload* w) {
  return w->rank == 0 && !gathers_at_root(w->collective) ? w->ranks : 1;
}

int rooted_blocks_received(const Workload* w) {
  return w->rank == 0 && gathers_at_root(w->collective) ? w->ranks : 1;
}

void rooted_post(const Workload* w, MPI_Comm comm, MPI_Request* request) {
  const MPI_Datatype type = MPI_BYTE;
  switch (w->collective) {
    case kIgather: MPI_Igather(w->send, w->bytes, type, w->receive, w->bytes, type, 0, comm, request); break;
    case kIgatherv:
      MPI_Igatherv(w->send, w->bytes, type, w->receive, w->counts, w->displacements, type, 0, comm, request);
      break;
    case kIscatter: MPI_Iscatter(w->send, w->bytes, type, w->receive, w->bytes, type, 0, comm, request); break;
    default: MPI_Iscatterv(w->send, w->counts, w->displacements, type, w->receive, w->bytes, type, 0, comm, request);
  }
}

void rooted_run(const Workload* w, MPI_Comm comm) {
  const MPI_Datatype type = MPI_BYTE;
  switch (w->collective) {
    case kIgather: MPI_Gather(w->send, w->bytes, type, w->receive, w->bytes, type, 0, comm); break;
    case kIgatherv: MPI_Gatherv(w->send, w->bytes, type, w->receive, w->counts, w->displacements, type, 0, comm); break;
    case kIscatter: MPI_Scatter(w->send, w->bytes, type, w->receive, w->bytes, type, 0, comm); break;
    default: MPI_Scatterv(w->send, w->counts, w->displacements, type, w->receive, w->bytes, type, 0, comm);
  }
}
