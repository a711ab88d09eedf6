/* Hangs in a known place until the test ends it: `stuck WAY ROUNDS`, after ROUNDS of collectives, on three ranks or
 * more.
 *
 *   barrier      the last rank never calls it, and computes
 *   different    the last rank calls MPI_Allreduce, the others MPI_Barrier
 *   wait         the last rank does not start the operation that the others wait for
 *   waitall      the same for the second of two operations, of which one is of the MPI's own
 *   part         the last rank is missing on a communicator of every second rank
 *   receive      each rank receives what none sends
 *   finalize     the last rank calls MPI_Finalize instead of MPI_Barrier
 *   started      as wait, with a persistent collective, where the MPI has them
 *   unstarted    as started, but the last rank has started none
 *   complete     starts ROUNDS of these, and ends
 *   threads      two threads, each with a communicator of its own: the last rank's first thread computes, and so does
 *                the first rank's second thread
 *
 * The remarks name the places for the test.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 64, MOST_RANKS = 64 };
static int sent[COUNT * MOST_RANKS];
static int received[COUNT * MOST_RANKS];

static MPI_Comm second;

static void compute(void) {
  const struct timespec pause = {3600, 0};
  for (;;) nanosleep(&pause, NULL);
}

typedef int Init(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);

/* Whatever this header's version is, under MPI 4's name or Open MPI 4.1's. */
static void start(int rounds) {
  Init* init = NULL;
  void* found = dlsym(RTLD_DEFAULT, "MPI_Alltoall_init");
  if (found == NULL) found = dlsym(RTLD_DEFAULT, "MPIX_Alltoall_init");
  memcpy(&init, &found, sizeof(init));
  if (init == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Request request;
  init(sent, COUNT, MPI_INT, received, COUNT, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int round = 0; round < rounds; ++round) {
    MPI_Start(&request);                   /* place: starts */
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* place: started */
    MPI_Startall(1, &request);             /* place: starts_all */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
}

static void* run_second(void* computes) {
  MPI_Barrier(second);
  if (computes != NULL) compute();
  MPI_Barrier(second); /* place: second */
  return NULL;
}

static void threads(int is_first, int is_last) {
  pthread_t thread;
  MPI_Comm_dup(MPI_COMM_WORLD, &second);
  MPI_Comm_set_name(second, "second");
  if (pthread_create(&thread, NULL, &run_second, is_first ? &thread : NULL) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Barrier(MPI_COMM_WORLD);
  if (is_last) compute();
  MPI_Barrier(MPI_COMM_WORLD); /* place: first */
}

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  const int has_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3 || size < 3 || size > MOST_RANKS) MPI_Abort(MPI_COMM_WORLD, 2);
  const char* way = argv[1];
  const int last = rank == size - 1;
  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
  MPI_Request requests[2];
  for (int round = 0; round < atoi(argv[2]); ++round) {
    MPI_Allreduce(sent, received, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* place: round */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(part);
    MPI_Ialltoall(sent, COUNT, MPI_INT, received, COUNT, MPI_INT, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE); /* place: goes_on */
  }
  MPI_Allreduce(sent, received, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* place: before */
  if (rank == 0) {
    printf("stuck: there\n");
    fflush(stdout);
  }
  if (strcmp(way, "barrier") == 0) {
    if (last) compute();
    MPI_Barrier(MPI_COMM_WORLD); /* place: barrier */
  } else if (strcmp(way, "different") == 0) {
    if (last) {
      MPI_Allreduce(sent, received, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* place: other */
    } else {
      MPI_Barrier(MPI_COMM_WORLD); /* place: one */
    }
  } else if (strcmp(way, "wait") == 0) {
    if (last) compute();
    MPI_Ialltoall(sent, COUNT, MPI_INT, received, COUNT, MPI_INT, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE); /* place: wait */
  } else if (strcmp(way, "waitall") == 0) {
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    if (last) compute();
    MPI_Ialltoall(sent, COUNT, MPI_INT, received, COUNT, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* place: waitall */
  } else if (strcmp(way, "part") == 0) {
    if (rank == (size - 1) / 2 * 2) compute();
    if (rank % 2 == 0) MPI_Barrier(part); /* place: part */
    compute();
  } else if (strcmp(way, "receive") == 0) {
    MPI_Recv(received, COUNT, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* place: receive */
  } else if (strcmp(way, "finalize") == 0) {
    if (!last) MPI_Barrier(MPI_COMM_WORLD); /* place: finalize */
  } else if (strcmp(way, "started") == 0) {
    start(last ? 2 : 3);
    compute();
  } else if (strcmp(way, "unstarted") == 0) {
    start(last ? 0 : 1);
    compute();
  } else if (strcmp(way, "complete") == 0) {
    start(atoi(argv[2]));
  } else if (has_threads) {
    if (provided < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 4);
    threads(rank == 0, last);
  }
  MPI_Comm_free(&part);
  MPI_Finalize();
  return 0;
}
