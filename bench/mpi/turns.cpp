#include "turns.hpp"

#include <cerrno>

#include "fail.h"

namespace harm {

Turns::Turns() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  MPI_Comm node = MPI_COMM_NULL;
  int node_size = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &node_size);
  MPI_Comm_free(&node);
  if (node_size != ranks_) fail("the ranks are not all on one node");
  void* own = nullptr;
  MPI_Win_allocate_shared(sizeof(sem_t), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window_);
  if (::sem_init(static_cast<sem_t*>(own), 1, 0) != 0) fail("no semaphores between processes here");
  MPI_Barrier(MPI_COMM_WORLD);
}

Turns::~Turns() {
  MPI_Win_free(&window_);
}

sem_t* Turns::semaphore_of(int rank) const {
  MPI_Aint bytes = 0;
  int unit = 0;
  void* base = nullptr;
  MPI_Win_shared_query(window_, rank, &bytes, &unit, &base);
  return static_cast<sem_t*>(base);
}

void Turns::sleep() {
  while (::sem_wait(semaphore_of(rank_)) != 0) {
    if (errno != EINTR) fail("cannot wait for the first rank");
  }
}

void Turns::wake_all() {
  for (int rank = 1; rank < ranks_; ++rank) ::sem_post(semaphore_of(rank));
}

}  // namespace harm
