// Cost of messages in the MPI itself, for `outrigger lab calibrate`: between ranks 0 and 1 of the job; the others wait
// in MPI_Finalize. Prints a line of JSON for each kind and size, with every sample in microseconds:
//
//   half_round_trip  a message there and one back, halved
//   message          one of many concurrent messages to the same rank
//   stream           the same for long ones: the time of the link or the copying core
//   stream_missed    the same over so many buffers that no cache holds them; within a host only
//   rested           one long message after a pause, until it is answered: a limited link lets a burst through
//   send_alone       MPI_Send to a rank that looks 3 ms later: short if messages are sent eagerly
//   post             MPI_Ialltoall of 8 bytes, until it returns; then its wait
//   late             from the first rank to leave a barrier to the last, on one clock
//   work             a fixed amount of computation
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "machine.h"

enum {
  kSamples = 21,  // upper limits; the time available decides
  kFewest = 4,
  kRoundTrips = 20,
  kBurst = 64,
  kStream = 4,
  kLate_us = 3000,
  kRest_us = 20000,
  kAlone_us = 300000,
  kEagerSamples = 5,
  kMost_bytes = 4 << 20,
  kMissed_bytes = 64 << 20  // of each side's buffers in stream_missed
};

static const double kLongest_us = 1e6;  // approximate limit for each kind and size

static int rank;
static char* buffer;    // is only sent, as in a collective: it never has to come out of another core's cache
static char* received;  // is only written
static MPI_Comm pair;

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void print_samples(const char* what, int bytes, const double* samples_us, int count) {
  if (rank != 0) return;
  printf("{\"what\": \"%s\", \"bytes\": %d, \"samples_us\": [", what, bytes);
  for (int i = 0; i < count; i++) printf("%s%.3f", i == 0 ? "" : ", ", samples_us[i]);
  printf("]}\n");
  fflush(stdout);
}

// Samples of a kind whose first sample took `first_us`; the same on both ranks.
static int samples_within(double first_us, int most) {
  double count = first_us > 0 ? kLongest_us / first_us : most;
  MPI_Bcast(&count, 1, MPI_DOUBLE, 0, pair);
  return count >= most ? most : count <= kFewest ? kFewest : (int)count;
}

static void to(int other, int bytes) {
  MPI_Send(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
}

static void from(int other, int bytes) {
  MPI_Recv(received, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void measure_round_trips(int bytes) {
  double samples_us[kSamples];
  int count = kSamples;
  for (int sample = 0; sample < count; sample++) {
    const double begin_us = now_us();
    for (int i = 0; i < kRoundTrips; i++) {
      if (rank == 0) to(1, bytes);
      from(1 - rank, bytes);
      if (rank == 1) to(0, bytes);
    }
    samples_us[sample] = (now_us() - begin_us) / (2 * kRoundTrips);
    if (sample == 0) count = samples_within(now_us() - begin_us, kSamples);
  }
  print_samples("half_round_trip", bytes, samples_us, count);
}

// Each message is in a buffer that begins `apart_bytes` after the previous one.
static double send_many(int bytes, int count, int apart_bytes) {
  MPI_Request requests[kBurst];
  if (rank == 0) from(1, 0);  // the receives of the other rank are ready
  const double begin_us = now_us();
  for (int i = 0; i < count; i++) {
    const ptrdiff_t offset = (ptrdiff_t)i * apart_bytes;
    if (rank == 0) MPI_Isend(buffer + offset, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[i]);
    if (rank == 1) MPI_Irecv(received + offset, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[i]);
  }
  if (rank == 1) to(0, 0);
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  if (rank == 0) from(1, 0);  // all have arrived
  if (rank == 1) to(0, 0);
  return now_us() - begin_us;
}

static void measure_many(const char* what, int bytes, int messages, int apart_bytes) {
  double samples_us[kSamples];
  int count = kSamples;
  for (int sample = 0; sample < count; sample++) {
    const double all_us = send_many(bytes, messages, apart_bytes);
    samples_us[sample] = all_us / messages;
    if (sample == 0) count = samples_within(all_us, kSamples);
  }
  print_samples(what, bytes, samples_us, count);
}

static void measure_rested(int bytes) {
  double samples_us[kSamples];
  for (int sample = 0; sample < kSamples; sample++) {
    usleep(kRest_us);
    samples_us[sample] = send_many(bytes, 1, 0);
  }
  print_samples("rested", bytes, samples_us, kSamples);
}

static void measure_send_alone(int bytes) {
  double samples_us[kEagerSamples];
  for (int sample = 0; sample < kEagerSamples; sample++) {
    if (rank == 0) {
      from(1, 0);
      const double begin_us = now_us();
      to(1, bytes);
      samples_us[sample] = now_us() - begin_us;
    } else {
      to(0, 0);
      usleep(kLate_us);
      from(0, bytes);
    }
  }
  print_samples("send_alone", bytes, samples_us, kEagerSamples);
}

static void measure_posts(void) {
  double samples_us[kSamples];
  char blocks[16];
  int count = kSamples;
  for (int sample = 0; sample < count; sample++) {
    MPI_Request request;
    const double begin_us = now_us();
    MPI_Ialltoall(buffer, 8, MPI_BYTE, blocks, 8, MPI_BYTE, pair, &request);
    samples_us[sample] = now_us() - begin_us;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(pair);
    if (sample == 0) count = samples_within(now_us() - begin_us, kSamples);
  }
  print_samples("post", 8, samples_us, count);
}

static void measure_late(void) {
  double samples_us[kSamples];
  int count = kSamples;
  for (int sample = 0; sample < count; sample++) {
    const double begin_us = now_us();
    MPI_Barrier(pair);
    const double left_us = now_us();
    double other_us = 0;
    MPI_Sendrecv(&left_us, 1, MPI_DOUBLE, 1 - rank, 3, &other_us, 1, MPI_DOUBLE, 1 - rank, 3, pair, MPI_STATUS_IGNORE);
    samples_us[sample] = left_us < other_us ? other_us - left_us : left_us - other_us;
    if (sample == 0) count = samples_within(now_us() - begin_us, kSamples);
  }
  print_samples("late", 0, samples_us, count);
}

// Only on rank 0: rank 1 may share its core, and sleeps.
static void measure_work(void) {
  static volatile uint64_t sink;
  double samples_us[kSamples];
  MPI_Barrier(pair);
  if (rank == 1) {
    usleep(kAlone_us);
    return;
  }
  for (int sample = 0; sample < kSamples; sample++) {
    const double begin_us = now_us();
    uint64_t state = sink;
    for (int i = 0; i < 2000000; i++) state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    sink = state;
    samples_us[sample] = now_us() - begin_us;
  }
  print_samples("work", 0, samples_us, kSamples);
}

static bool print_place(bool one_clock) {
  char names[2][MPI_MAX_PROCESSOR_NAME] = {{0}};
  int length = 0;
  MPI_Get_processor_name(names[rank], &length);
  MPI_Sendrecv(names[rank], MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 1 - rank, 4, names[1 - rank], MPI_MAX_PROCESSOR_NAME,
               MPI_CHAR, 1 - rank, 4, pair, MPI_STATUS_IGNORE);
  const bool one_host = strcmp(names[0], names[1]) == 0;
  if (rank != 0) return one_host;
  printf("{\"what\": \"place\", \"one_host\": %s, \"one_machine\": %s, \"machine_cores\": %ld}\n",
         one_host ? "true" : "false", one_clock ? "true" : "false", sysconf(_SC_NPROCESSORS_ONLN));
  fflush(stdout);
  return one_host;
}

// Powers of two, and three sizes between those where MPIs usually begin the rendezvous: limits are often just below a
// power.
static void for_each_size(int first, int last, void (*measure)(int bytes)) {
  for (int bytes = first; bytes <= last; bytes *= 2) {
    measure(bytes);
    for (int quarter = 1; bytes >= 1024 && bytes < 1 << 17 && quarter < 4; quarter++)
      measure(bytes / 4 * (4 + quarter));
  }
}

static void measure_all(bool one_clock) {
  const bool one_host = print_place(one_clock);
  if (one_clock) measure_late();
  measure_posts();
  // Within a host all sizes, to find the limit of eager messages.
  if (one_host) {
    for_each_size(8, 1 << 20, measure_round_trips);
  } else {
    for (int bytes = 8; bytes <= 8192; bytes *= 32) measure_round_trips(bytes);
  }
  measure_many("message", 8, kBurst, 0);
  for (int bytes = 1 << 20; bytes <= kMost_bytes; bytes *= 2) measure_many("stream", bytes, kStream, 0);
  if (one_host) measure_many("stream_missed", kMissed_bytes / kBurst, kBurst, kMissed_bytes / kBurst);
  measure_rested(1 << 20);
  for_each_size(256, 1 << 20, measure_send_alone);
  measure_work();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) fail("at least 2 ranks are needed");
  const bool one_clock = machine_one_clock();
  buffer = allocate_or_fail(kMissed_bytes);
  received = allocate_or_fail(kMissed_bytes);
  memset(buffer, 1, kMissed_bytes);
  memset(received, 2, kMissed_bytes);
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &pair);
  if (rank < 2) {
    measure_all(one_clock);
    MPI_Comm_free(&pair);
  }
  MPI_Finalize();
  return 0;
}
