// Five small programs that compute between a collective and the first use of its data, in two versions: "blocking", and
// "moved", with the nonblocking form and its wait right before the use. Prints each one's time, for a comparison with
// what `outrigger advise` predicts from the blocking one.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size, moved;
static MPI_Request request;
static unsigned char *sent, *received;
static size_t bytes;

// A negative time is slept, as if an accelerator did the work: that leaves the core to whatever moves data meanwhile.
static void compute(double seconds) {
  if (seconds < 0) {
    const long ns = (long)(-1e9 * seconds);
    const struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&pause, NULL);
    return;
  }
  volatile double sum = 1;
  const double begin = MPI_Wtime();
  while (MPI_Wtime() - begin < seconds) {
    for (int i = 0; i < 100; ++i) sum += sum * 1e-9;
  }
}
static void use(void) {
  unsigned char sum = 0;
  for (size_t i = 0; i < bytes; i += 64) sum = (unsigned char)(sum + received[i]);  // a byte of each cache line
  sent[0] = sum;
}
static void wait_if_moved(void) {
  if (moved) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void bcast_then_compute(double work) {
  if (moved) {
    MPI_Ibcast(received, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  } else {
    MPI_Bcast(received, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  compute(work);
  wait_if_moved();
  use();
}
static void alltoall_then_compute(double work) {
  const int block = (int)bytes / size;
  if (moved) {
    MPI_Ialltoall(sent, block, MPI_BYTE, received, block, MPI_BYTE, MPI_COMM_WORLD, &request);
  } else {
    MPI_Alltoall(sent, block, MPI_BYTE, received, block, MPI_BYTE, MPI_COMM_WORLD);
  }
  compute(work);
  wait_if_moved();
  use();
}
static void allgather_then_compute(double work) {
  const int block = (int)bytes / size;
  if (moved) {
    MPI_Iallgather(sent, block, MPI_BYTE, received, block, MPI_BYTE, MPI_COMM_WORLD, &request);
  } else {
    MPI_Allgather(sent, block, MPI_BYTE, received, block, MPI_BYTE, MPI_COMM_WORLD);
  }
  compute(work);
  wait_if_moved();
  use();
}
static void alltoall_with_little_work(double work) {
  alltoall_then_compute(work / 20);
}
// The work comes before: nothing to gain.
static void used_at_once(double work) {
  compute(work);
  alltoall_then_compute(0);
}

static const struct {
  const char* name;
  void (*step)(double work);
} programs[] = {{"bcast", &bcast_then_compute},
                {"alltoall", &alltoall_then_compute},
                {"allgather", &allgather_then_compute},
                {"little", &alltoall_with_little_work},
                {"at-once", &used_at_once}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 6) {
    fprintf(stderr, "usage: moved PROGRAM blocking|moved BYTES WORK_US STEPS [VARIABLE]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (argc > 6 && getenv(argv[6]) != NULL) MPI_Abort(MPI_COMM_WORLD, 3);  // as if that had ended it
  moved = strcmp(argv[2], "moved") == 0;
  bytes = strtoul(argv[3], NULL, 10) / (size_t)size * (size_t)size;
  const double work = 1e-6 * atof(argv[4]);
  const int steps = atoi(argv[5]);
  sent = calloc(1, bytes);
  received = calloc(1, bytes);
  for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); ++i) {
    if (strcmp(programs[i].name, argv[1]) != 0) continue;
    programs[i].step(work);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int step = 0; step < steps; ++step) programs[i].step(work);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("moved: %s %s %.1f us a step\n", argv[1], argv[2], 1e6 * (MPI_Wtime() - begin) / steps);
  }
  MPI_Finalize();
  return 0;
}
