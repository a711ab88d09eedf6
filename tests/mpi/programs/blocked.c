/* Ranks that wait in calls with messages until the test ends them: `blocked WAY`, on three ranks. Rank 0 waits for what
 * none sends, in the call of that name. The others compute, but for:
 *
 *   chain        ranks 0 and 1 receive from the next one, and rank 2 computes
 *   circle       each receives from the next one
 *   barrier      rank 2 receives, the others wait for it in a barrier
 *   reversed     on a communicator with the ranks in reverse order
 *   unnamed      on one without a name
 *   between      on one between rank 0 and the others
 *   alone        on one of this rank alone
 *   freed        the communicator of a receive is freed before the wait
 *   two          two threads receive
 *   late         a thread receives while the other one is in a barrier
 *   jumped       an error handler leaves a receive by longjmp(), and the rank receives again
 *   gone         the same, and it computes after a barrier
 *   nested       an error handler of a receive sends to its own rank and receives that, and computes
 *   renamed      a communicator gets its name after messages on it; then ranks 1 and 2 are in a barrier there
 *   moving       ranks exchange messages for ever
 *
 * The remarks name the places for the test.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MANY = 1 << 22 };
static int sent[MANY];
static int received[MANY];
static int rank;
static jmp_buf before;

static void compute(void) {
  const struct timespec pause = {3600, 0};
  for (;;) nanosleep(&pause, NULL);
}

static void leave(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  longjmp(before, 1);
}

static void send_and_compute(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  MPI_Sendrecv(sent, 1, MPI_INT, 0, 1, received, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  compute();
}

static void receive(int source, int tag, MPI_Comm comm) {
  MPI_Recv(received, 1, MPI_INT, source, tag, comm, MPI_STATUS_IGNORE); /* place: receive */
}

/* Its frame covers that of a call which an error handler has left. */
static __attribute__((noinline)) void receive_deeper(void) {
  volatile char room[8192];
  room[0] = 1;
  receive(1, 7, MPI_COMM_WORLD);
  room[1] = room[0];
}

static void* receive_in_thread(void* tag) {
  MPI_Recv(received + 1, 1, MPI_INT, 1, *(const int*)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* place: thread */
  return NULL;
}

static void start_thread(void) {
  static const int tag = 8;
  pthread_t thread;
  if (pthread_create(&thread, NULL, &receive_in_thread, (void*)&tag) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
}

static void set_handler(MPI_Comm_errhandler_function* function) {
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(function, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
}

static void jump(void) {
  set_handler(&leave);
  if (setjmp(before) == 0) MPI_Recv(received, 1, MPI_INT, 1, -77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void wait_for(const char* way) {
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int index = 0;
  int indices[3];
  for (int i = 0; i < 2; ++i) MPI_Irecv(received + i, 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
  if (strcmp(way, "wait") == 0) MPI_Wait(&requests[0], MPI_STATUS_IGNORE);              /* place: wait */
  if (strcmp(way, "waitall") == 0) MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);       /* place: waitall */
  if (strcmp(way, "waitany") == 0) MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE); /* place: waitany */
  if (strcmp(way, "waitsome") == 0) {
    MPI_Waitsome(2, requests, &index, indices, MPI_STATUSES_IGNORE); /* place: waitsome */
  }
}

static void exchange_with(int to, int from, int tag, MPI_Comm comm) {
  MPI_Sendrecv(sent, 1, MPI_INT, to, 5, received, 1, MPI_INT, from, tag, comm, MPI_STATUS_IGNORE); /* place: sendrecv */
}

static void replace(int to, int from, MPI_Comm comm) {
  MPI_Sendrecv_replace(sent, 1, MPI_INT, to, 5, from, 6, comm, MPI_STATUS_IGNORE); /* place: replace */
}

static void message(const char* way) {
  MPI_Message found;
  if (strcmp(way, "send") == 0) MPI_Send(sent, MANY, MPI_INT, 1, 3, MPI_COMM_WORLD); /* place: send */
  if (strcmp(way, "ssend") == 0) MPI_Ssend(sent, 1, MPI_INT, 2, 4, MPI_COMM_WORLD);  /* place: ssend */
  if (strcmp(way, "recv") == 0) receive(1, 7, MPI_COMM_WORLD);
  if (strcmp(way, "any") == 0) receive(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
  if (strcmp(way, "sendrecv") == 0) exchange_with(1, 2, MPI_ANY_TAG, MPI_COMM_WORLD);
  if (strcmp(way, "replace") == 0) replace(MPI_PROC_NULL, 1, MPI_COMM_WORLD);
  if (strcmp(way, "probe") == 0) MPI_Probe(1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);           /* place: probe */
  if (strcmp(way, "mprobe") == 0) MPI_Mprobe(1, 9, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE); /* place: mprobe */
}

static void on_other_communicators(const char* way) {
  MPI_Comm reversed;
  MPI_Comm unnamed;
  MPI_Comm part;
  MPI_Comm between;
  MPI_Comm alone;
  MPI_Request request;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_set_name(reversed, "reversed");
  MPI_Comm_dup(MPI_COMM_WORLD, &unnamed);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &part);
  MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 1, &between);
  MPI_Comm_dup(MPI_COMM_SELF, &alone);
  if (rank != 0) compute();
  if (strcmp(way, "reversed") == 0) receive(0, 7, reversed);
  if (strcmp(way, "unnamed") == 0) receive(2, 7, unnamed);
  if (strcmp(way, "between") == 0) receive(1, 7, between);
  if (strcmp(way, "alone") == 0) receive(0, 7, alone);
  MPI_Irecv(received, 1, MPI_INT, 1, 7, unnamed, &request);
  MPI_Comm_free(&unnamed);
  MPI_Wait(&request, MPI_STATUS_IGNORE); /* place: freed */
}

static void exchange(void) {
  const int other = rank == 0 ? 1 : 0;
  const struct timespec pause = {0, 1000000};
  if (rank > 1) compute();
  for (;;) {
    MPI_Sendrecv(sent, 1, MPI_INT, other, 1, received, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    nanosleep(&pause, NULL);
  }
}

static void rename_after_messages(void) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  exchange_with((rank + 1) % 3, (rank + 2) % 3, 5, comm);
  MPI_Comm_set_name(comm, "renamed");
  if (rank != 0) MPI_Barrier(comm);
}

static void several_ranks(const char* way) {
  if (strcmp(way, "circle") == 0) receive((rank + 1) % 3, 7, MPI_COMM_WORLD);
  if (strcmp(way, "chain") == 0 && rank < 2) receive(rank + 1, 7, MPI_COMM_WORLD);
  if (strcmp(way, "barrier") == 0) {
    if (rank == 2) receive(0, 7, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD); /* place: barrier */
  }
  if (strcmp(way, "moving") == 0) exchange();
  if (strcmp(way, "renamed") == 0) rename_after_messages();
  if (strcmp(way, "gone") == 0) {
    if (rank == 0) jump();
    MPI_Barrier(MPI_COMM_WORLD); /* place: met */
  }
}

static int needs_communicators(const char* way) {
  static const char* const ways[] = {"reversed", "unnamed", "between", "alone", "freed"};
  for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); ++i) {
    if (strcmp(way, ways[i]) == 0) return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  const char* way = argc > 1 ? argv[1] : "";
  const int threads = strcmp(way, "two") == 0 || strcmp(way, "late") == 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(sent, received, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* place: before */
  if (rank == 0) {
    printf("blocked: there\n");
    fflush(stdout);
  }
  if (needs_communicators(way)) on_other_communicators(way);
  several_ranks(way);
  if (strcmp(way, "late") == 0) {
    if (rank == 0) start_thread();
    if (rank == 2) compute();
    MPI_Barrier(MPI_COMM_WORLD); /* place: late */
  }
  if (rank != 0) compute();
  if (strcmp(way, "two") == 0) {
    start_thread();
    receive(1, 7, MPI_COMM_WORLD);
  }
  if (strcmp(way, "jumped") == 0) {
    jump();
    receive_deeper();
  }
  if (strcmp(way, "nested") == 0) {
    set_handler(&send_and_compute);
    receive(1, -77, MPI_COMM_WORLD);
  }
  if (strncmp(way, "wait", 4) == 0) wait_for(way);
  message(way);
  compute();
  return 0;
}
