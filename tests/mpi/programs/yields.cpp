// Counts how often a rank yields during a post: once if it shares its core, or its service process does, so that the
// others can post as well; else never.
//
//   yields CPU      all ranks run on this one

#include <mpi.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {
int yields = 0;
}

// Found before the C library's, also by the libraries.
extern "C" __attribute__((visibility("default"))) int sched_yield() {
  ++yields;
  return static_cast<int>(syscall(SYS_sched_yield));
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: yields CPU\n");
    return 2;
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(std::atoi(argv[1]), &cpus);
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
    std::perror("yields: sched_setaffinity");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<int> sent(static_cast<std::size_t>(ranks), rank);
  std::vector<int> received(static_cast<std::size_t>(ranks), -1);
  MPI_Request request = MPI_REQUEST_NULL;
  const int before = yields;
  MPI_Ialltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
  const int posting = yields - before;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  std::printf("rank %d yields %d times\n", rank, posting);
  for (int i = 0; i < ranks; ++i) {
    if (received[static_cast<std::size_t>(i)] != i) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
