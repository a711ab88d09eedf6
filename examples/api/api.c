/* Use of Outrigger's API in C. Runs with and without Outrigger: see docs/using/api.md.
 *
 *     api [ROUNDS]
 */
#include <mpi.h>
#include <outrigger/outrigger.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBlock = 16 << 10 }; /* numbers for each rank */

static void exchange(const int* sent, int* received, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    MPI_Request request;
    MPI_Ialltoall(sent, kBlock, MPI_INT, received, kBlock, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* a real program computes before this */
  }
}

static unsigned long long counter(const char* name) {
  int index;
  uint64_t value = 0;
  if (outrigger_counter_index(name, &index) == OUTRIGGER_OK) outrigger_counter_read(index, &value);
  return value;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc > 1 ? atoi(argv[1]) : 10;
  int* sent = calloc((size_t)ranks * kBlock, sizeof *sent);
  int* received = calloc((size_t)ranks * kBlock, sizeof *received);
  if (sent == NULL || received == NULL) MPI_Abort(MPI_COMM_WORLD, 1);

  if (rank == 0 && outrigger_is_active()) printf("Outrigger %s offloads\n", outrigger_version());
  if (rank == 0 && !outrigger_is_active()) printf("nothing is offloaded: %s\n", outrigger_inactive_reason());
  outrigger_counting_start();

  outrigger_phase_push("offloaded"); /* the report has a row for each phase */
  exchange(sent, received, rounds);
  outrigger_phase_pop();

  int was_on = 1;
  const int switched = outrigger_switch(0, &was_on); /* on all ranks, at the same place */
  outrigger_phase_push("native");
  exchange(sent, received, rounds);
  outrigger_phase_pop();
  if (switched == OUTRIGGER_OK) outrigger_switch(was_on, NULL);

  if (rank == 0 && outrigger_is_active()) {
    printf("rank 0: %llu collectives, %llu offloaded, %llu switched off, %llu bytes, %.6f s in them\n",
           counter("outrigger_calls"), counter("outrigger_offloaded"), counter("outrigger_native_switched_off"),
           counter("outrigger_bytes"), 1e-9 * (double)counter("outrigger_exposed_time"));
  }
  free(sent);
  free(received);
  MPI_Finalize();
  return 0;
}
