/* The last rank comes late to every all-to-all by a known time, and each rank computes for a known time before it
 * waits. Runs until the test ends it.
 *
 *   watched LATE_MS WORK_MS
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 16384, MOST_ROUNDS = 100000 };

static void pass(int milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

int main(int count, char** words) {
  int rank = 0;
  int size = 0;
  int over = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char* sent = calloc((size_t)size, BLOCK);
  char* received = calloc((size_t)size, BLOCK);
  if (count < 3 || sent == NULL || received == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int round = 0; round < MOST_ROUNDS && !over; ++round) {
    MPI_Request request;
    if (rank == size - 1) pass(atoi(words[1]));
    MPI_Ialltoall(sent, BLOCK, MPI_BYTE, received, BLOCK, MPI_BYTE, MPI_COMM_WORLD, &request);
    pass(atoi(words[2]));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    over = access(getenv("TEST_END_FILE"), F_OK) == 0;
    MPI_Allreduce(MPI_IN_PLACE, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && round == 8) {
      printf("watched: goes on\n");
      fflush(stdout);
    }
  }
  free(sent);
  free(received);
  MPI_Finalize();
  return 0;
}
