// Cost of MPI_Init for ranks that all run on one core: prints the longest time of a rank, and the most CPU time.
//
//   start CPU      the core

#include <mpi.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: start CPU\n");
    return 2;
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(std::atoi(argv[1]), &cpus);
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
    std::perror("start: sched_setaffinity");
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  MPI_Init(&argc, &argv);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const double cpu_ms = 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  const std::array<double, 2> mine{took.count(), cpu_ms};
  std::array<double, 2> most{};
  MPI_Reduce(mine.data(), most.data(), 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("start: %.1f ms, %.1f ms of CPU time\n", most[0], most[1]);
  MPI_Finalize();
  return 0;
}
