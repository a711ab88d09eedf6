// Reductions whose two buffers are one, as Open MPI accepts it where other MPIs want MPI_IN_PLACE. A NaN or infinities
// among the contributions must change no other element.
#include <math.h>
#include <mpi.h>
#include <stdio.h>

enum { kElements = 100, kCalls = 30 };

static int me, ranks, wrong;

static void expect(const char* what, int call, int element, double is, double should) {
  if (is == should || (isnan(is) && isnan(should))) return;
  if (wrong++ < 10)
    fprintf(stderr, "rank %d: %s, call %d, element %d: %g, not %g\n", me, what, call, element, is, should);
}

// One element. The first rank alone gives one buffer. Infinities of both signs make a NaN.
static void sum_of_infinities(int call) {
  double mine = me == 0 ? INFINITY : me == 1 ? -INFINITY : 1;
  double sum = 0;
  MPI_Allreduce(&mine, me == 0 ? &mine : &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect("allreduce", call, 0, me == 0 ? mine : sum, NAN);
}

static double contribution(int rank, int element, int nan_at) {
  return rank == 0 && element == nan_at ? NAN : (rank + 1) * 1000.0 + element;
}

static void prefix_sums(int call) {
  const int nan_at = call % 3 == 0 ? call : -1;
  double values[kElements];
  for (int i = 0; i < kElements; ++i) values[i] = contribution(me, i, nan_at);
  MPI_Scan(values, values, kElements, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kElements; ++i) {
    double should = 0;
    for (int rank = 0; rank <= me; ++rank) should += contribution(rank, i, nan_at);
    expect("scan", call, i, values[i], should);
  }
}

static void sum_of_own(int call) {
  double mine = me + 1.0;
  MPI_Allreduce(&mine, &mine, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect("allreduce in one buffer", call, 0, mine, ranks * (ranks + 1) / 2.0);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int call = 0; call < kCalls; ++call) {
    sum_of_infinities(call);
    prefix_sums(call);
    sum_of_own(call);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (me == 0) puts(wrong == 0 ? "all right" : "WRONG");
  MPI_Finalize();
  return wrong != 0;
}
