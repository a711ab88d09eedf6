/* Only some ranks have the library: each receives, by wildcards, only messages of the other ranks' programs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ranks, rank;

static void wrong(const MPI_Status* status, int bytes) {
  fprintf(stderr, "mixed: rank %d: a message of nobody's: from rank %d, tag %d, %d bytes\n", rank, status->MPI_SOURCE,
          status->MPI_TAG, bytes);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void take_one(int* seen) {
  MPI_Status status;
  int bytes, message[2];
  MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != (int)sizeof message) wrong(&status, bytes);
  MPI_Recv(message, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  if (message[0] != status.MPI_SOURCE || message[1] != rank || status.MPI_TAG != 7 || seen[message[0]]++)
    wrong(&status, bytes);
}

#if MPI_VERSION >= 4
/* Partitioned messages match by tag only. */
static void exchange_partitioned(void) {
  for (int tag = 0; tag < 4; ++tag) {
    int sent = 10 * rank + tag, received = -1, from = (rank + ranks - 1) % ranks;
    MPI_Request requests[2];
    MPI_Psend_init(&sent, 1, 1, MPI_INT, (rank + 1) % ranks, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(&received, 1, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready(0, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
    if (received == 10 * from + tag) continue;
    fprintf(stderr, "mixed: rank %d: a partitioned message of nobody's with tag %d\n", rank, tag);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int* seen = calloc((size_t)ranks, sizeof(int));
  int* messages = malloc((size_t)ranks * 2 * sizeof(int));
  MPI_Request* requests = malloc((size_t)ranks * sizeof(MPI_Request));
  for (int i = 0; i < ranks; ++i) {
    messages[2 * i] = rank;
    messages[2 * i + 1] = i;
    MPI_Isend(messages + 2 * i, 2, MPI_INT, i, 7, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < ranks; ++i) take_one(seen);
  for (int i = 0; i < ranks; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4
  exchange_partitioned();
#endif
  int sum = 0;
  MPI_Alltoall(seen, 1, MPI_INT, messages, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < 100; ++i) {
    MPI_Status status;
    int there, bytes;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
    if (!there) continue;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    wrong(&status, bytes);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("mixed: %d ranks received their own, sum %d\n", ranks, sum);
  free(requests);
  free(messages);
  free(seen);
  MPI_Finalize();
  return 0;
}
