/* Calls for a profiling tool to count: two communicators' all-to-alls by MPI_Wait and MPI_Waitall, and messages
 * between. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 5, kBlock = 3000 };

static int rank, size;

static int value(int from, int to, int round) {
  return from * 100003 + to * 1009 + round;
}

static void fill(int* send, int round) {
  for (int to = 0; to < size; ++to) {
    for (int i = 0; i < kBlock; ++i) send[to * kBlock + i] = value(rank, to, round) ^ i;
  }
}

static int wrong(const int* received, int round) {
  int count = 0;
  for (int from = 0; from < size; ++from) {
    for (int i = 0; i < kBlock; ++i) count += received[from * kBlock + i] != (value(from, rank, round) ^ i);
  }
  return count;
}

static int* numbers(void) {
  int* memory = malloc(sizeof(int) * (size_t)kBlock * (size_t)size);
  if (memory == NULL) abort();
  return memory;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int* sent[2] = {numbers(), numbers()};
  int* received[2] = {numbers(), numbers()};
  int bad = 0;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Request requests[2];
    fill(sent[0], round);
    MPI_Ialltoall(sent[0], kBlock, MPI_INT, received[0], kBlock, MPI_INT, copy, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    bad += wrong(received[0], round);
    fill(sent[1], round + 1);
    MPI_Ialltoall(sent[0], kBlock, MPI_INT, received[0], kBlock, MPI_INT, copy, &requests[0]);
    MPI_Ialltoall(sent[1], kBlock, MPI_INT, received[1], kBlock, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    bad += wrong(received[0], round) + wrong(received[1], round + 1);
    if (rank == 0) MPI_Send(&round, 1, MPI_INT, size - 1, 7, copy);
    if (rank == size - 1) {
      int got = -1;
      MPI_Recv(&got, 1, MPI_INT, 0, 7, copy, MPI_STATUS_IGNORE);
      bad += got != round;
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("tooled: %d wrong\n", bad);
  for (int i = 0; i < 2; ++i) {
    free(sent[i]);
    free(received[i]);
  }
  MPI_Comm_free(&copy);
  MPI_Finalize();
  return bad != 0;
}
