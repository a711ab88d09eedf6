// Reads every received element as early as allowed, in memory that was never written before, for tools that track
// initialized memory.
//
//   checked [ELEMENTS]    of a block
//
// Prints "checked: rank R odd O unseen U" for each rank: U are receive buffers that the memory sanitizer considers
// uninitialized; valgrind reports them itself, in look().

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define FOLLOWED 1
#endif
#endif

static long odd = 0;
static int unseen = 0;

static void look(const int* received, int count) {
#ifdef FOLLOWED
  if (__msan_test_shadow(received, (size_t)count * sizeof(int)) != -1) ++unseen;
  __msan_unpoison(received, (size_t)count * sizeof(int));
#endif
  for (int i = 0; i < count; ++i) {
    if (received[i] & 1) ++odd;
  }
}

static int* fresh(int count) {
  int* memory = malloc((size_t)count * sizeof(int));
  if (memory == NULL) abort();
  return memory;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int block = argc > 1 ? atoi(argv[1]) : 20000;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Request request;
  int* send = fresh(block * size);
  int* counts = fresh(size);
  int* places = fresh(size);
  for (int i = 0; i < block * size; ++i) send[i] = rank + i;
  for (int i = 0; i < size; ++i) {
    counts[i] = block - 1;
    places[i] = i * block;
  }

  int* received = fresh(block * size);
  MPI_Ialltoall(send, block, MPI_INT, received, block, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  look(received, block * size);
  free(received);

  received = fresh(block * size);
  MPI_Ialltoallv(send, counts, places, MPI_INT, received, counts, places, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < size; ++i) look(received + places[i], counts[i]);
  free(received);

  received = fresh(block * size);
  MPI_Iallgather(send, block, MPI_INT, received, block, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  look(received, block * size);
  free(received);

  received = fresh(block);
  for (int i = 0; i < block && rank == 0; ++i) received[i] = i;
  MPI_Ibcast(received, block, MPI_INT, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  look(received, block);
  free(received);

  received = fresh(block);
  MPI_Iallreduce(send, received, block, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  look(received, block);
  free(received);

  received = fresh(block);
  MPI_Ireduce(send, received, block, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 0) look(received, block);
  free(received);

  received = fresh(block);
  MPI_Ireduce_scatter_block(send, received, block, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  look(received, block);
  free(received);

#ifndef FOLLOWED  // the MPI unpacks, which the memory sanitizer does not see
  MPI_Datatype every_second;
  MPI_Type_vector(block, 1, 2, MPI_INT, &every_second);
  MPI_Type_commit(&every_second);
  received = fresh(2 * block * size);
  MPI_Iallgather(send, block, MPI_INT, received, 1, every_second, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < block; ++i) look(received + 2 * i, 1);
  free(received);
  MPI_Type_free(&every_second);
#endif

  printf("checked: rank %d odd %ld unseen %d\n", rank, odd, unseen);
  fflush(stdout);
  free(send);
  free(counts);
  free(places);
  MPI_Finalize();
  return 0;
}
