// Counts reads of a thread's CPU clock inside native collectives: each is a system call, which takes longer than the
// smallest collectives. Fails if there is one.
#include <mpi.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

constexpr int kCalls = 1000;

std::atomic<long> cpu_readings = 0;

void call_all(MPI_Comm comm) {
  double sent = 1;
  double received = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, comm);
  MPI_Iallreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Ireduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, 0, comm, &request);
  int flag = 0;
  while (flag == 0) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  if (clock == CLOCK_THREAD_CPUTIME_ID) ++cpu_readings;
  return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm dup = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  call_all(MPI_COMM_WORLD);
  cpu_readings = 0;
  for (int i = 0; i < kCalls; ++i) {
    call_all(MPI_COMM_WORLD);
    call_all(dup);
  }
  const long found = cpu_readings;
  long most = 0;
  MPI_Reduce(&found, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("clocks: %ld readings of CPU time in %d calls\n", most, 6 * kCalls);
  MPI_Comm_free(&dup);
  MPI_Finalize();
  return most == 0 ? 0 : rank == 0 ? 1 : 0;
}
