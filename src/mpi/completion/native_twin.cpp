#include "mpi/completion/native_twin.hpp"

#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {

// A neighbor of itself on a ring of one: other collectives of one rank complete at once, but this one uses messages and
// ends only when the MPI progresses.
NativeTwin::NativeTwin(MPI_Comm like, Progress progress)
    : comm_(constants().comm_null), request_(constants().request_null) {
  const int ranks = 1;
  const int is_ring = 1;
  if (real().Cart_create(constants().comm_self, 1, &ranks, &is_ring, 0, &comm_) != MPI_SUCCESS) return;
  MPI_Errhandler handler{};
  real().Comm_get_errhandler(like, &handler);
  real().Comm_set_errhandler(comm_, handler);
  real().Errhandler_free(&handler);
  const MPI_Datatype type = constants().byte;
  real().Ineighbor_alltoall(sent_.data(), 1, type, received_.data(), 1, type, comm_, &request_);
  int ended = progress == Progress::complete ? 0 : 1;
  while (ended == 0) real().Request_get_status(request_, &ended, MPI_STATUS_IGNORE);
}

NativeTwin::~NativeTwin() {
  if (!is_gone()) real().Wait(&request_, MPI_STATUS_IGNORE);
  if (comm_ != constants().comm_null) real().Comm_free(&comm_);
}

bool NativeTwin::is_gone() const {
  return request_ == constants().request_null;
}

}  // namespace outrigger::mpi
