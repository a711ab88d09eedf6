#include "mpi/communicators/off_marks.hpp"

#include "mpi/communicators/comm_state.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

int copy_mark(MPI_Comm /*comm*/, int /*keyval*/, void* /*extra*/, void* value, void* copy, int* flag) {
  *static_cast<void**>(copy) = value;
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_mark(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* /*extra*/) {
  return MPI_SUCCESS;
}

// Its value is the address of this. Off: the attribute is there.
constinit char off_mark = 0;

bool find_mark(const Job& job, MPI_Comm comm) {
  void* value = nullptr;
  int found = 0;
  return real().Comm_get_attr(comm, job.off_keyval, static_cast<void*>(&value), &found) == MPI_SUCCESS && found != 0;
}

}  // namespace

bool register_off_marks(Job& job) {
  return real().Comm_create_keyval(&copy_mark, &delete_mark, &job.off_keyval, nullptr) == MPI_SUCCESS;
}

void forget_off_marks(Job& job) {
  if (job.off_keyval != MPI_KEYVAL_INVALID) real().Comm_free_keyval(&job.off_keyval);
}

bool is_marked_off(const Job& job, MPI_Comm comm) {
  return job.off_keyval != MPI_KEYVAL_INVALID && find_mark(job, comm);
}

void mark_off(const Job& job, MPI_Comm comm, bool off) {
  if (off == find_mark(job, comm)) return;
  if (off) {
    real().Comm_set_attr(comm, job.off_keyval, &off_mark);
  } else {
    real().Comm_delete_attr(comm, job.off_keyval);
  }
  note_freed_communicator();  // what is known of the communicator has changed
}

}  // namespace outrigger::mpi
