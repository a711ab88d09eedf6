// The persistent collectives of the loaded MPI, independent of this header's version: MPI 4's, or the same under Open
// MPI 4.1's names (MPIX_X_init).
#pragma once

#include <dlfcn.h>
#include <mpi.h>

#include <string>

namespace persistent {

// nullptr if it has none.
template <class Function>
Function look_up(const char* name) {
  for (const char* prefix : {"MPIX_", "MPI_"}) {
    if (void* address = dlsym(RTLD_DEFAULT, (prefix + std::string(name)).c_str())) {
      return reinterpret_cast<Function>(address);
    }
  }
  return nullptr;
}

struct Calls {
  using Regular = int (*)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);
  using Alltoallv = int (*)(const void*, const int*, const int*, MPI_Datatype, void*, const int*, const int*,
                            MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);
  using Alltoallw = int (*)(const void*, const int*, const int*, const MPI_Datatype*, void*, const int*, const int*,
                            const MPI_Datatype*, MPI_Comm, MPI_Info, MPI_Request*);
  using Allgatherv = int (*)(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, MPI_Comm,
                             MPI_Info, MPI_Request*);
  using Bcast = int (*)(void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*);
  using Reduces = int (*)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
  using ReduceScatter = int (*)(const void*, void*, const int*, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
  using Reduce = int (*)(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Info, MPI_Request*);
  using Rooted = int (*)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info,
                         MPI_Request*);
  using Gatherv = int (*)(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, int, MPI_Comm,
                          MPI_Info, MPI_Request*);
  using Scatterv = int (*)(const void*, const int*, const int*, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm,
                           MPI_Info, MPI_Request*);
  using NeighborAlltoallw = int (*)(const void*, const int*, const MPI_Aint*, const MPI_Datatype*, void*, const int*,
                                    const MPI_Aint*, const MPI_Datatype*, MPI_Comm, MPI_Info, MPI_Request*);
  using Barrier = int (*)(MPI_Comm, MPI_Info, MPI_Request*);

  Regular alltoall = look_up<Regular>("Alltoall_init");
  Alltoallv alltoallv = look_up<Alltoallv>("Alltoallv_init");
  Alltoallw alltoallw = look_up<Alltoallw>("Alltoallw_init");
  Regular allgather = look_up<Regular>("Allgather_init");
  Allgatherv allgatherv = look_up<Allgatherv>("Allgatherv_init");
  Bcast bcast = look_up<Bcast>("Bcast_init");
  Reduces allreduce = look_up<Reduces>("Allreduce_init");
  Reduce reduce = look_up<Reduce>("Reduce_init");
  Reduces reduce_scatter_block = look_up<Reduces>("Reduce_scatter_block_init");
  ReduceScatter reduce_scatter = look_up<ReduceScatter>("Reduce_scatter_init");
  Reduces scan = look_up<Reduces>("Scan_init");
  Reduces exscan = look_up<Reduces>("Exscan_init");
  Rooted gather = look_up<Rooted>("Gather_init");
  Gatherv gatherv = look_up<Gatherv>("Gatherv_init");
  Rooted scatter = look_up<Rooted>("Scatter_init");
  Scatterv scatterv = look_up<Scatterv>("Scatterv_init");
  Barrier barrier = look_up<Barrier>("Barrier_init");
  Regular neighbor_alltoall = look_up<Regular>("Neighbor_alltoall_init");
  Alltoallv neighbor_alltoallv = look_up<Alltoallv>("Neighbor_alltoallv_init");
  NeighborAlltoallw neighbor_alltoallw = look_up<NeighborAlltoallw>("Neighbor_alltoallw_init");
  Regular neighbor_allgather = look_up<Regular>("Neighbor_allgather_init");
  Allgatherv neighbor_allgatherv = look_up<Allgatherv>("Neighbor_allgatherv_init");

  [[nodiscard]] bool there() const {
    return alltoall && alltoallv && alltoallw && allgather && allgatherv && bcast && allreduce && reduce &&
           reduce_scatter_block && reduce_scatter && scan && exscan && gather && gatherv && scatter && scatterv &&
           barrier && neighbor_alltoall && neighbor_alltoallv && neighbor_alltoallw && neighbor_allgather &&
           neighbor_allgatherv;
  }
};

inline const Calls& calls() {
  static const Calls all;
  return all;
}

}  // namespace persistent
