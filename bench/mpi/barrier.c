#include "barrier.h"

#include <sched.h>
#include <stdatomic.h>

#include "machine.h"
#include "probe.h"

typedef struct {
  _Alignas(64) atomic_uint arrived;
  _Alignas(64) atomic_uint generation;
} Counter;

static MPI_Comm over_nodes;
static MPI_Win window = MPI_WIN_NULL;
static Counter* counter;
static unsigned ranks;
static bool one_clock;

static bool on_one_node(void) {
  MPI_Comm node;
  int world_size;
  int node_size;
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &node_size);
  MPI_Comm_free(&node);
  ranks = (unsigned)world_size;
  int same = node_size == world_size;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  return same != 0;
}

void barrier_open(MPI_Comm fallback) {
  over_nodes = fallback;
  one_clock = machine_one_clock();
  if (!on_one_node()) return;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  void* base;
  const MPI_Aint bytes = rank == 0 ? (MPI_Aint)sizeof(Counter) : 0;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  MPI_Aint size;
  int unit;
  MPI_Win_shared_query(window, 0, &size, &unit, &base);
  counter = base;
  if (rank == 0) {
    atomic_init(&counter->arrived, 0);
    atomic_init(&counter->generation, 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// With an MPI that yields, ranks leave MPI_Barrier milliseconds apart. All ranks read one clock, so they agree on a
// time after the last arrival, and wait for it as for the counter.
static void start_by_the_clock(void) {
  const double agreeing_s = 0.005;
  double start_s = now_s() + agreeing_s;
  MPI_Allreduce(MPI_IN_PLACE, &start_s, 1, MPI_DOUBLE, MPI_MAX, over_nodes);
  while (now_s() < start_s) sched_yield();
}

void barrier(void) {
  if (!counter && one_clock) {
    start_by_the_clock();
    return;
  }
  if (!counter) {
    MPI_Barrier(over_nodes);
    return;
  }
  const unsigned generation = atomic_load(&counter->generation);
  if (atomic_fetch_add(&counter->arrived, 1) + 1 == ranks) {
    atomic_store(&counter->arrived, 0);
    atomic_fetch_add(&counter->generation, 1);
    return;
  }
  while (atomic_load(&counter->generation) == generation) sched_yield();
}

void barrier_close(void) {
  counter = NULL;
  if (window != MPI_WIN_NULL) MPI_Win_free(&window);
}

bool barrier_is_sharp(void) {
  return counter != NULL;
}

bool barrier_one_clock(void) {
  return one_clock;
}
