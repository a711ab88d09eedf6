// Duration of MPI_Init: one line of JSON with the smallest, the mean and the largest time of all ranks.
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

int main(int argc, char** argv) {
  const double before = now_ms();
  MPI_Init(&argc, &argv);
  double mine = now_ms() - before;
  int rank = 0;
  int ranks = 0;
  double least = 0;
  double sum = 0;
  double most = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"ranks\": %d, \"init_ms\": {\"min\": %.3f, \"mean\": %.3f, \"max\": %.3f}}\n", ranks, least, sum / ranks,
           most);
  }
  MPI_Finalize();
  return 0;
}
