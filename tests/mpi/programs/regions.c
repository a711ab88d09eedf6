/* Names phases by MPI_Pcontrol: `regions WAY` (test_phases.py).
 *
 *   clock     two phases, and the times of the program's own clock
 *   names     nested, unbalanced, many, numbered and badly named ones; one stays open
 *   orders    MPI_Pcontrol as other tools take it, which begins nothing
 *   threads   two threads at a time, each in a phase of its own
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 4096, MOST_RANKS = 16, STEPS = 40 };
static int me, ranks;

static void reduce(MPI_Comm comm) {
  static __thread int sent[COUNT], received[COUNT];
  MPI_Allreduce(sent, received, COUNT, MPI_INT, MPI_SUM, comm);
}

static void compute(double seconds) {
  const double began = MPI_Wtime();
  while (MPI_Wtime() - began < seconds) continue;
}

/* Rank 1 computes longest in the first phase. The second one has a broadcast, which not all ranks wait in. */
static void with_clock(void) {
  static int blocks[COUNT];
  double inside[2] = {0, 0}, spent[2] = {0, 0};
  for (int step = 0; step < STEPS; ++step) {
    MPI_Pcontrol(1, "solve");
    double began = MPI_Wtime();
    compute(me == 1 ? 0.004 : 0.002);
    double called = MPI_Wtime();
    reduce(MPI_COMM_WORLD);
    double ended = MPI_Wtime();
    inside[0] += ended - began;
    spent[0] += ended - called;
    MPI_Pcontrol(-1, "solve");
    compute(0.001);
    MPI_Pcontrol(1, "exchange");
    began = MPI_Wtime();
    compute(me == 1 ? 0.001 : 0.002);
    called = MPI_Wtime();
    MPI_Bcast(blocks, COUNT, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    ended = MPI_Wtime();
    inside[1] += ended - began;
    spent[1] += ended - called;
    MPI_Pcontrol(-1, "exchange");
  }
  printf("spent %d %.6f %.6f %.6f %.6f\n", me, inside[0], spent[0], inside[1], spent[1]);
}

static void without_names(void) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  char* const two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (two == MAP_FAILED || mprotect(two + page, page, PROT_NONE) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  memset(two, 'x', page);
  const char* const not_names[] = {NULL, (const char*)8, (const char*)-1, two + page, two + page - 7,
                                   "",   "a\nb",         "\xff"};
  for (size_t i = 0; i < sizeof(not_names) / sizeof(not_names[0]); ++i) {
    MPI_Pcontrol(1, not_names[i]);
    MPI_Pcontrol(-1, not_names[i]);
  }
  strcpy(two + page - 5, "edge");
  MPI_Pcontrol(1, two + page - 5);
  MPI_Pcontrol(-1, two + page - 5);
}

static void names(void) {
  static char longest[200];
  memset(longest, 'l', sizeof(longest) - 1);
  MPI_Pcontrol(1, "outer");
  reduce(MPI_COMM_WORLD);
  MPI_Pcontrol(1, "inner");
  reduce(MPI_COMM_WORLD);
  reduce(MPI_COMM_WORLD);
  MPI_Pcontrol(-1, "never begun");
  MPI_Pcontrol(-1, "outer"); /* ends both */
  reduce(MPI_COMM_WORLD);    /* in none */
  MPI_Pcontrol(-1, "inner");
  MPI_Pcontrol(7);
  reduce(MPI_COMM_WORLD);
  MPI_Pcontrol(-7);
  for (int i = 0; i < 40; ++i) MPI_Pcontrol(1, "deep"); /* 32 of them fit */
  for (int i = 0; i < 39; ++i) MPI_Pcontrol(-1, "deep");
  reduce(MPI_COMM_WORLD);
  MPI_Pcontrol(-1, "deep");
  MPI_Pcontrol(1, longest);
  MPI_Pcontrol(-1, longest);
  without_names();
  MPI_Pcontrol(1, "open");
  reduce(MPI_COMM_WORLD);
}

static void orders(void) {
  static const int levels[] = {0, 1, 2, 3, 4, -1, -2, -4};
  MPI_Pcontrol(1, "before");
  reduce(MPI_COMM_WORLD);
  MPI_Pcontrol(0, "a word that is no name");
  reduce(MPI_COMM_WORLD);
  MPI_Pcontrol(-1, "before");
  for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); ++i) {
    MPI_Pcontrol(levels[i], "a word that is no name");
    reduce(MPI_COMM_WORLD);
  }
}

static void* run_thread(void* comm) {
  const char* const name = *(MPI_Comm*)comm == MPI_COMM_WORLD ? "first" : "second";
  for (int step = 0; step < STEPS; ++step) {
    MPI_Pcontrol(1, name);
    reduce(*(MPI_Comm*)comm);
    MPI_Pcontrol(-1, name);
  }
  return NULL;
}

static void threads(void) {
  MPI_Comm world = MPI_COMM_WORLD, other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &run_thread, &other) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  run_thread(&world);
  pthread_join(thread, NULL);
  MPI_Comm_free(&other);
}

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  const char* const way = argc > 1 ? argv[1] : "";
  MPI_Init_thread(&argc, &argv, strcmp(way, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (strcmp(way, "clock") == 0) with_clock();
  if (strcmp(way, "names") == 0) names();
  if (strcmp(way, "orders") == 0) orders();
  if (strcmp(way, "threads") == 0 && provided == MPI_THREAD_MULTIPLE) threads();
  MPI_Finalize();
  return 0;
}
