#include "neighbors.h"

bool is_of_neighbors(Collective collective) {
  return collective >= kIneighborAlltoall && collective <= kIneighborAllgatherv;
}

MPI_Comm grid_open(MPI_Comm comm) {
  int ranks;
  int lengths[2] = {0, 0};
  const int periodic[2] = {0, 0};
  MPI_Comm grid;
  MPI_Comm_size(comm, &ranks);
  MPI_Dims_create(ranks, 2, lengths);
  MPI_Cart_create(comm, 2, lengths, periodic, 0, &grid);
  return grid;
}

int neighbor_at(MPI_Comm grid, int place) {
  int both[2];
  MPI_Cart_shift(grid, place / 2, 1, &both[0], &both[1]);
  return both[place % 2];
}

int neighbor_blocks_sent(const Workload* w) {
  return w->collective == kIneighborAllgather || w->collective == kIneighborAllgatherv ? 1 : kNeighbors;
}

void neighbor_post(const Workload* w, MPI_Comm grid, MPI_Request* request) {
  const MPI_Datatype type = MPI_BYTE;
  switch (w->collective) {
    case kIneighborAlltoall:
      MPI_Ineighbor_alltoall(w->send, w->bytes, type, w->receive, w->bytes, type, grid, request);
      break;
    case kIneighborAlltoallv:
      MPI_Ineighbor_alltoallv(w->send, w->counts, w->displacements, type, w->receive, w->counts, w->displacements, type,
                              grid, request);
      break;
    case kIneighborAlltoallw:
      MPI_Ineighbor_alltoallw(w->send, w->counts, w->offsets, w->types, w->receive, w->counts, w->offsets, w->types,
                              grid, request);
      break;
    case kIneighborAllgather:
      MPI_Ineighbor_allgather(w->send, w->bytes, type, w->receive, w->bytes, type, grid, request);
      break;
    default:
      MPI_Ineighbor_allgatherv(w->send, w->bytes, type, w->receive, w->counts, w->displacements, type, grid, request);
  }
}

void neighbor_run(const Workload* w, MPI_Comm grid) {
  const MPI_Datatype type = MPI_BYTE;
  switch (w->collective) {
    case kIneighborAlltoall: MPI_Neighbor_alltoall(w->send, w->bytes, type, w->receive, w->bytes, type, grid); break;
    case kIneighborAlltoallv:
      MPI_Neighbor_alltoallv(w->send, w->counts, w->displacements, type, w->receive, w->counts, w->displacements, type,
                             grid);
      break;
    case kIneighborAlltoallw:
      MPI_Neighbor_alltoallw(w->send, w->counts, w->offsets, w->types, w->receive, w->counts, w->offsets, w->types,
                             grid);
      break;
    case kIneighborAllgather: MPI_Neighbor_allgather(w->send, w->bytes, type, w->receive, w->bytes, type, grid); break;
    default: MPI_Neighbor_allgatherv(w->send, w->bytes, type, w->receive, w->counts, w->displacements, type, grid);
  }
}
