/* outrigger.h from inside a program.
 *
 *     api absent           there is no preload library: all calls report that, and the program runs
 *     api native           the job runs natively: calls are counted, and the switch reports that nothing is active
 *     api active [early]   counters, also started late; the switch, its agreement, the info key
 *                          early: counting is asked for before MPI_Init
 *     api apart            one rank alone counts
 *     api many             rank 0 has more communicators than entries for dispatch plans; of 3 ranks
 *     api phases           names phases; what the report and the trace have of them is for the test to see
 *     api forked           a child names phases, too, and ends one that has begun in its parent
 */
#include <mpi.h>
#include <outrigger/outrigger.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBlock = 5000, kMostRanks = 16 };

static int me, ranks;
static int sent[kBlock * kMostRanks], received[kBlock * kMostRanks];

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "api: rank %d, line %d: not so: %s\n", me, __LINE__, #condition); \
      exit(3);                                                                          \
    }                                                                                   \
  } while (0)

static MPI_Request post(MPI_Comm comm) {
  MPI_Request request;
  for (int i = 0; i < ranks * kBlock; ++i) sent[i] = me * 1000003 + i;
  memset(received, 0, sizeof received);
  MPI_Ialltoall(sent, kBlock, MPI_INT, received, kBlock, MPI_INT, comm, &request);
  return request;
}

static void finish(MPI_Request request) {
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int peer = 0; peer < ranks; ++peer) {
    CHECK(received[peer * kBlock + 7] == peer * 1000003 + me * kBlock + 7);
  }
}

/* Of any communicator. */
static void wait_for(MPI_Request request) {
  CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

static void exchange(MPI_Comm comm) {
  finish(post(comm));
}

static int index_of(const char* name) {
  int index = -1;
  CHECK(outrigger_counter_index(name, &index) == OUTRIGGER_OK);
  return index;
}

static uint64_t read_counter(const char* name) {
  uint64_t value = 0;
  CHECK(outrigger_counter_read(index_of(name), &value) == OUTRIGGER_OK);
  return value;
}

static uint64_t read_of(MPI_Comm comm, const char* call, const char* name) {
  uint64_t value = 0;
  CHECK(outrigger_counter_read_comm(comm, call, index_of(name), &value) == OUTRIGGER_OK);
  return value;
}

static void check_absent(void) {
  struct outrigger_counter counter;
  uint64_t value;
  int index;
  CHECK(strcmp(outrigger_version(), "") == 0 && !outrigger_is_active() && outrigger_counter_count() == 0);
  CHECK(strstr(outrigger_inactive_reason(), "not loaded") != NULL);
  CHECK(outrigger_counter_info(0, &counter) == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_counter_index("outrigger_calls", &index) == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_counting_start() == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_counter_read(0, &value) == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_counter_read_comm(MPI_COMM_WORLD, NULL, 0, &value) == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_phase_push("a") == OUTRIGGER_NOT_ACTIVE && outrigger_phase_pop() == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_switch(0, NULL) == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_comm_switch(MPI_COMM_WORLD, 0, NULL) == OUTRIGGER_NOT_ACTIVE);
  exchange(MPI_COMM_WORLD);
}

/* Every counter has a unique name, by which it is found. */
static void check_names(void) {
  const int count = outrigger_counter_count();
  struct outrigger_counter counter;
  CHECK(count > 20);
  for (int i = 0; i < count; ++i) {
    CHECK(outrigger_counter_info(i, &counter) == OUTRIGGER_OK);
    CHECK(index_of(counter.name) == i && counter.unit[0] != '\0' && counter.description[0] != '\0');
  }
  CHECK(outrigger_counter_info(count, &counter) == OUTRIGGER_BAD_ARGUMENT);
  CHECK(outrigger_counter_info(-1, &counter) == OUTRIGGER_BAD_ARGUMENT);
  CHECK(outrigger_counter_index("outrigger_nothing", &(int){0}) == OUTRIGGER_BAD_ARGUMENT);
}

static void check_native(void) {
  CHECK(strcmp(outrigger_version(), "") != 0 && !outrigger_is_active());
  CHECK(strlen(outrigger_inactive_reason()) > 5);
  CHECK(outrigger_switch(0, NULL) == OUTRIGGER_NOT_ACTIVE);
  CHECK(outrigger_comm_switch(MPI_COMM_WORLD, 0, NULL) == OUTRIGGER_NOT_ACTIVE);
  exchange(MPI_COMM_WORLD);
  CHECK(outrigger_counting_start() == OUTRIGGER_OK);
  exchange(MPI_COMM_WORLD);
  CHECK(read_counter("outrigger_calls") == 1 && read_counter("outrigger_native_native_job") == 1);
  CHECK(read_of(MPI_COMM_WORLD, "MPI_Ialltoall", "outrigger_calls") == 1);
}

static void check_counters(int early) {
  MPI_Comm other;
  uint64_t value;
  check_names();
  if (!early) {
    CHECK(outrigger_counter_read(0, &value) == OUTRIGGER_NOT_COUNTED);
    CHECK(outrigger_counter_read_comm(MPI_COMM_WORLD, NULL, 0, &value) == OUTRIGGER_NOT_COUNTED);
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  exchange(other);
  CHECK(outrigger_counting_start() == OUTRIGGER_OK);
  const uint64_t before = read_counter("outrigger_calls");
  CHECK(before == (early ? 1 : 0));
  exchange(other);
  exchange(MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(read_counter("outrigger_calls") == before + 3 && read_counter("outrigger_offloaded") >= 2);
  CHECK(read_of(other, NULL, "outrigger_calls") == before + 1);
  CHECK(read_of(MPI_COMM_WORLD, NULL, "outrigger_calls") == 2);
  CHECK(read_of(MPI_COMM_WORLD, "MPI_Ialltoall", "outrigger_offloaded") == 1);
  CHECK(read_of(MPI_COMM_WORLD, "MPI_Ialltoall", "outrigger_bytes") == sizeof(int) * kBlock * (uint64_t)ranks);
  CHECK(read_of(MPI_COMM_WORLD, "MPI_Barrier", "outrigger_exposed_time") > 0);
  CHECK(read_counter("outrigger_native") == read_counter("outrigger_calls") - read_counter("outrigger_offloaded"));
  CHECK(outrigger_counter_read_comm(MPI_COMM_SELF, NULL, 0, &value) == OUTRIGGER_NOT_COUNTED);
  CHECK(outrigger_counter_read_comm(MPI_COMM_WORLD, "MPI_Send", 0, &value) == OUTRIGGER_BAD_ARGUMENT);
  CHECK(outrigger_counter_read_comm(MPI_COMM_NULL, NULL, 0, &value) == OUTRIGGER_BAD_ARGUMENT);
  MPI_Comm_free(&other);
}

/* The number of a communicator's offloaded exchanges tells if the next one is offloaded. */
static int is_offloaded(MPI_Comm comm) {
  const uint64_t before = read_counter("outrigger_offloaded");
  const uint64_t off_before = read_counter("outrigger_native_switched_off");
  exchange(comm);
  const uint64_t more = read_counter("outrigger_offloaded") - before;
  CHECK(more + read_counter("outrigger_native_switched_off") - off_before == 1);
  return (int)more;
}

static void check_switch(void) {
  int was_on = -1;
  MPI_Comm other, copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  CHECK(is_offloaded(MPI_COMM_WORLD) && is_offloaded(other));
  MPI_Request outstanding = post(other);
  CHECK(outrigger_switch(0, &was_on) == OUTRIGGER_OK && was_on == 1);
  finish(outstanding);
  CHECK(!is_offloaded(MPI_COMM_WORLD) && !is_offloaded(other));
  MPI_Comm_dup(other, &copy);
  CHECK(!is_offloaded(copy));
  CHECK(outrigger_switch(1, &was_on) == OUTRIGGER_OK && was_on == 0);
  CHECK(is_offloaded(MPI_COMM_WORLD) && is_offloaded(other) && is_offloaded(copy));
  MPI_Comm_free(&copy);

  CHECK(outrigger_comm_switch(other, 0, &was_on) == OUTRIGGER_OK && was_on == 1);
  CHECK(is_offloaded(MPI_COMM_WORLD) && !is_offloaded(other));
  MPI_Comm_dup(other, &copy);
  CHECK(!is_offloaded(copy));
  CHECK(outrigger_comm_switch(other, 1, &was_on) == OUTRIGGER_OK && was_on == 0);
  CHECK(is_offloaded(other) && !is_offloaded(copy));
  MPI_Comm_free(&copy);
  CHECK(outrigger_comm_switch(MPI_COMM_NULL, 0, NULL) == OUTRIGGER_BAD_ARGUMENT);
  CHECK(outrigger_comm_switch(MPI_COMM_SELF, 0, NULL) == OUTRIGGER_NOT_ACTIVE);
  MPI_Comm_free(&other);
}

/* Nothing changes, nothing hangs. */
static void check_disagreement(void) {
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  CHECK(outrigger_switch(me == 0, NULL) == OUTRIGGER_DISAGREED);
  CHECK(outrigger_comm_switch(other, me == 0, NULL) == OUTRIGGER_DISAGREED);
  CHECK(is_offloaded(MPI_COMM_WORLD) && is_offloaded(other));
  /* Rank 0 has called a collective before the switch, and the others call it after the switch. */
  MPI_Request request = me == 0 ? post(other) : MPI_REQUEST_NULL;
  CHECK(outrigger_switch(0, NULL) == OUTRIGGER_DISAGREED);
  finish(me == 0 ? request : post(other));
  CHECK(outrigger_switch(0, NULL) == OUTRIGGER_OK);
  request = me == 0 ? post(other) : MPI_REQUEST_NULL;
  CHECK(outrigger_switch(1, NULL) == OUTRIGGER_DISAGREED);
  finish(me == 0 ? request : post(other));
  CHECK(!is_offloaded(other));
  CHECK(outrigger_switch(1, NULL) == OUTRIGGER_OK);
  CHECK(is_offloaded(other));
  MPI_Comm_free(&other);
}

static void set_info(MPI_Comm comm, const char* key, const char* value) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  MPI_Comm_set_info(comm, info);
  MPI_Info_free(&info);
}

static void check_info_key(void) {
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  set_info(other, "outrigger", "off");
  CHECK(!is_offloaded(other) && is_offloaded(MPI_COMM_WORLD));
  set_info(other, "outrigger", "on");
  CHECK(is_offloaded(other));
  if (me == 0) set_info(other, "something else", "off"); /* without communication */
  CHECK(is_offloaded(other));
  MPI_Comm_free(&other);
}

/* Small and large blocks, counts, and sums: native for many reasons, or not. */
static void call_this_and_that(MPI_Comm comm) {
  static double numbers[4], sums[4];
  int counts[kMostRanks], places[kMostRanks];
  MPI_Request requests[4];
  for (int i = 0; i < ranks; ++i) {
    counts[i] = 2;
    places[i] = 2 * i;
  }
  for (int i = 0; i < 50; ++i) {
    MPI_Iallgather(sent, 2, MPI_INT, received, 2, MPI_INT, comm, &requests[0]);
    MPI_Ibcast(received + kBlock, kBlock, MPI_INT, 0, comm, &requests[1]);
    MPI_Iallgatherv(sent, 2, MPI_INT, received + 1000, counts, places, MPI_INT, comm, &requests[2]);
    MPI_Iallreduce(numbers, sums, 4, MPI_DOUBLE, MPI_SUM, comm, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }
}

/* Ranks are at the same place independent of their counting, and of trials and choices. */
static void check_one_that_counts(void) {
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  call_this_and_that(other);
  if (me == 0) CHECK(outrigger_counting_start() == OUTRIGGER_OK);
  for (int i = 0; i < 4; ++i) {
    call_this_and_that(i < 2 ? other : MPI_COMM_WORLD);
    CHECK(outrigger_switch(i % 2, NULL) == OUTRIGGER_OK);
    call_this_and_that(other);
  }
  CHECK(outrigger_comm_switch(other, 0, NULL) == OUTRIGGER_OK);
  if (me == 0) {
    CHECK(read_counter("outrigger_calls") == 8 * 200);
    CHECK(read_counter("outrigger_native_blocking_form") == 0);
    CHECK(read_counter("outrigger_native_no_offloaded_form") == 0);
  }
  MPI_Comm_free(&other);
}

/* Communicators of rank 0 with each other rank: each of those has half as many as rank 0. */
static void check_many_communicators(void) {
  enum { kEach = 260 };
  static MPI_Comm pairs[2][kEach];
  MPI_Request request;
  CHECK(ranks == 3);
  for (int other = 1; other <= 2; ++other) {
    MPI_Comm* mine = pairs[other - 1];
    MPI_Comm_split(MPI_COMM_WORLD, me == 0 || me == other ? 0 : MPI_UNDEFINED, me, &mine[0]);
    if (mine[0] == MPI_COMM_NULL) continue;
    for (int i = 1; i < kEach; ++i) MPI_Comm_dup(mine[0], &mine[i]);
    for (int i = 0; i < kEach; ++i) wait_for(post(mine[i]));
  }
  MPI_Comm last = pairs[1][kEach - 1];
  if (me != 1) {
    wait_for(post(last));
    CHECK(outrigger_comm_switch(last, 0, NULL) == OUTRIGGER_OK);
    CHECK(outrigger_comm_switch(last, 1, NULL) == OUTRIGGER_OK);
  }
  CHECK(outrigger_switch(0, NULL) == OUTRIGGER_OK && outrigger_switch(1, NULL) == OUTRIGGER_OK);
  if (me != 1) {
    request = me == 0 ? post(last) : MPI_REQUEST_NULL;
    CHECK(outrigger_comm_switch(last, 0, NULL) == OUTRIGGER_DISAGREED);
    wait_for(me == 0 ? request : post(last));
  }
  for (int i = 0; i < kEach; ++i) {
    if (me != 2) MPI_Comm_free(&pairs[0][i]);
    if (me != 1) MPI_Comm_free(&pairs[1][i]);
  }
}

static void name_phases(void) {
  char name[100];
  for (int i = 0; i < 3; ++i) {
    CHECK(outrigger_phase_push("outer") == OUTRIGGER_OK);
    exchange(MPI_COMM_WORLD);
    CHECK(outrigger_phase_push("inner") == OUTRIGGER_OK);
    exchange(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(outrigger_phase_pop() == OUTRIGGER_OK && outrigger_phase_pop() == OUTRIGGER_OK);
    exchange(MPI_COMM_WORLD);
  }
  CHECK(outrigger_phase_pop() == OUTRIGGER_LIMIT && outrigger_phase_push(NULL) == OUTRIGGER_BAD_ARGUMENT);
  for (int i = 0; i < 32; ++i) CHECK(outrigger_phase_push("deep") == OUTRIGGER_OK);
  CHECK(outrigger_phase_push("too deep") == OUTRIGGER_LIMIT);
  for (int i = 0; i < 32; ++i) CHECK(outrigger_phase_pop() == OUTRIGGER_OK);
  for (int i = 0; i < 300; ++i) {
    snprintf(name, sizeof name, "number %d", i);
    CHECK(outrigger_phase_push(name) == OUTRIGGER_OK && outrigger_phase_pop() == OUTRIGGER_OK);
  }
  CHECK(outrigger_phase_push("left open") == OUTRIGGER_OK);
}

static void name_phases_in_a_child(void) {
  CHECK(outrigger_phase_push("parent's") == OUTRIGGER_OK);
  const pid_t child = fork();
  if (child == 0) {
    const int ended = outrigger_phase_pop();
    const int began = outrigger_phase_push("child's");
    _exit(ended == OUTRIGGER_OK && began == OUTRIGGER_OK && outrigger_phase_pop() == OUTRIGGER_OK ? 0 : 1);
  }
  int status = 1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  CHECK(outrigger_phase_pop() == OUTRIGGER_OK);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  const int early = argc > 2 && strcmp(argv[2], "early") == 0;
  CHECK(!outrigger_is_active() && outrigger_inactive_reason()[0] != '\0');
  if (early) CHECK(outrigger_counting_start() == OUTRIGGER_OK);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(ranks <= kMostRanks);
  if (strcmp(mode, "absent") == 0) check_absent();
  if (strcmp(mode, "native") == 0) check_native();
  if (strcmp(mode, "active") == 0 || strcmp(mode, "phases") == 0) {
    CHECK(outrigger_is_active() && outrigger_inactive_reason()[0] == '\0');
  }
  if (strcmp(mode, "active") == 0) {
    check_counters(early);
    check_switch();
    check_disagreement();
    check_info_key();
  }
  if (strcmp(mode, "phases") == 0) name_phases();
  if (strcmp(mode, "forked") == 0) name_phases_in_a_child();
  if (strcmp(mode, "apart") == 0) check_one_that_counts();
  if (strcmp(mode, "many") == 0) check_many_communicators();
  MPI_Finalize();
  if (strcmp(mode, "active") == 0) {
    CHECK(!outrigger_is_active() && read_counter("outrigger_calls") > 20);
    CHECK(outrigger_counting_start() == OUTRIGGER_NOT_ACTIVE && outrigger_switch(0, NULL) == OUTRIGGER_NOT_ACTIVE);
  }
  printf("api: rank %d: %s is so\n", me, mode);
  return 0;
}
