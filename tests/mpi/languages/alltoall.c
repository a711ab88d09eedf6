/* The program that every language binding has: four outstanding all-to-alls (regular, v-form with gaps, in place, and
   with a strided type), completed in three different ways, then an all-to-all with a type for each peer, an allgather
   in place and a broadcast, with a blocking broadcast between, for several sizes. Every rank writes all its receive
   buffers to PREFIX.<rank>; the files must not depend on the language, the MPI or on offloading. alltoall.F90 and
   alltoall.py do the same, step by step.

     alltoall_c PREFIX */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { sizes = 4 };
static const int block_sizes[sizes] = {1, 17, 4096, 40000};

static int32_t value(int rank, int index, int salt) {
  return (int32_t)(((int64_t)rank * 1000003 + (int64_t)index * 31 + (int64_t)salt * 7919) % 1000000007);
}

/* Elements that rank `from` sends to rank `to` in the v-form. */
static int v_count(int from, int to, int block) {
  return (from * 3 + to * 5) % 4 * block / 3;
}

static void* from_mpi(size_t bytes) {
  void* memory;
  MPI_Alloc_mem((MPI_Aint)(bytes > 0 ? bytes : 1), MPI_INFO_NULL, &memory);
  return memory;
}

static void run(int block, FILE* out) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const size_t elements = (size_t)(block * size);
  MPI_Request requests[4];

  /* Regular, with memory of MPI_Alloc_mem. */
  int32_t* send = from_mpi(elements * sizeof *send);
  int32_t* receive = from_mpi(elements * sizeof *receive);
  for (size_t i = 0; i < elements; ++i) send[i] = value(rank, (int)i, 1), receive[i] = -1;
  MPI_Ialltoall(send, block, MPI_INT, receive, block, MPI_INT, MPI_COMM_WORLD, &requests[0]);

  /* The v-form, with two elements between the blocks. */
  int* counts[2];
  int* displacements[2];
  int total[2] = {0, 0};
  for (int side = 0; side < 2; ++side) {
    counts[side] = malloc((size_t)size * sizeof(int));
    displacements[side] = malloc((size_t)size * sizeof(int));
    for (int peer = 0; peer < size; ++peer) {
      counts[side][peer] = side == 0 ? v_count(rank, peer, block) : v_count(peer, rank, block);
      displacements[side][peer] = total[side];
      total[side] += counts[side][peer] + 2;
    }
  }
  double* v_send = malloc((size_t)total[0] * sizeof *v_send);
  double* v_receive = malloc((size_t)total[1] * sizeof *v_receive);
  for (int i = 0; i < total[0]; ++i) v_send[i] = value(rank, i, 2) * 0.5;
  for (int i = 0; i < total[1]; ++i) v_receive[i] = -1;
  MPI_Ialltoallv(v_send, counts[0], displacements[0], MPI_DOUBLE, v_receive, counts[1], displacements[1], MPI_DOUBLE,
                 MPI_COMM_WORLD, &requests[1]);

  /* In place. */
  int32_t* in_place = malloc(elements * sizeof *in_place);
  for (size_t i = 0; i < elements; ++i) in_place[i] = value(rank, (int)i, 3);
  MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place, block, MPI_INT, MPI_COMM_WORLD, &requests[2]);

  /* Every second element, into a contiguous buffer. */
  MPI_Datatype strided, every_second;
  MPI_Type_vector(block, 1, 2, MPI_INT, &strided);
  MPI_Type_create_resized(strided, 0, (MPI_Aint)(2 * (size_t)block * sizeof(int32_t)), &every_second);
  MPI_Type_commit(&every_second);
  MPI_Type_free(&strided);
  int32_t* s_send = malloc(2 * elements * sizeof *s_send);
  int32_t* s_receive = malloc(elements * sizeof *s_receive);
  for (size_t i = 0; i < 2 * elements; ++i) s_send[i] = value(rank, (int)i, 4);
  for (size_t i = 0; i < elements; ++i) s_receive[i] = -1;
  MPI_Ialltoall(s_send, 1, every_second, s_receive, block, MPI_INT, MPI_COMM_WORLD, &requests[3]);

  MPI_Waitall(2, requests + 2, MPI_STATUSES_IGNORE);
  MPI_Status status;
  MPI_Wait(&requests[0], &status);
  for (int done = 0; !done;) MPI_Test(&requests[1], &done, MPI_STATUS_IGNORE);

  fwrite(receive, sizeof *receive, elements, out);
  fwrite(v_receive, sizeof *v_receive, (size_t)total[1], out);
  fwrite(in_place, sizeof *in_place, elements, out);
  fwrite(s_receive, sizeof *s_receive, elements, out);

  MPI_Type_free(&every_second);
  MPI_Free_mem(send);
  MPI_Free_mem(receive);
  for (int side = 0; side < 2; ++side) free(counts[side]), free(displacements[side]);
  free(v_send), free(v_receive), free(in_place), free(s_send), free(s_receive);
}

static void run_others(int block, FILE* out) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const size_t elements = (size_t)(block * size);
  MPI_Request requests[3];

  /* A type and a displacement in bytes for each peer. */
  int* counts = malloc((size_t)size * sizeof *counts);
  int* displacements = malloc((size_t)size * sizeof *displacements);
  MPI_Datatype* types = malloc((size_t)size * sizeof *types);
  for (int peer = 0; peer < size; ++peer) {
    counts[peer] = block;
    displacements[peer] = peer * block * (int)sizeof(int32_t);
    types[peer] = MPI_INT;
  }
  int32_t* w_send = malloc(elements * sizeof *w_send);
  int32_t* w_receive = malloc(elements * sizeof *w_receive);
  for (size_t i = 0; i < elements; ++i) w_send[i] = value(rank, (int)i, 5), w_receive[i] = -1;
  MPI_Ialltoallw(w_send, counts, displacements, types, w_receive, counts, displacements, types, MPI_COMM_WORLD,
                 &requests[0]);

  /* Every rank's block for all, in place. */
  int32_t* gathered = malloc(elements * sizeof *gathered);
  for (size_t i = 0; i < elements; ++i) gathered[i] = (int)i / block == rank ? value(rank, (int)i, 6) : -1;
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered, block, MPI_INT, MPI_COMM_WORLD, &requests[1]);

  /* The last rank's block for all; before its wait, the first rank's by the blocking form. */
  int32_t* from_last = malloc((size_t)block * sizeof *from_last);
  int32_t* from_first = malloc((size_t)block * sizeof *from_first);
  for (int i = 0; i < block; ++i) {
    from_last[i] = rank == size - 1 ? value(rank, i, 7) : -1;
    from_first[i] = rank == 0 ? value(rank, i, 8) : -1;
  }
  MPI_Ibcast(from_last, block, MPI_INT, size - 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Bcast(from_first, block, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);

  fwrite(w_receive, sizeof *w_receive, elements, out);
  fwrite(gathered, sizeof *gathered, elements, out);
  fwrite(from_last, sizeof *from_last, (size_t)block, out);
  fwrite(from_first, sizeof *from_first, (size_t)block, out);
  free(counts), free(displacements), free(types);
  free(w_send), free(w_receive), free(gathered), free(from_last), free(from_first);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", argc > 1 ? argv[1] : "alltoall_c", rank);
  FILE* out = fopen(name, "wb");
  if (out == NULL) {
    fprintf(stderr, "alltoall_c: cannot write %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  for (int i = 0; i < sizes; ++i) run(block_sizes[i], out), run_others(block_sizes[i], out);
  fclose(out);
  MPI_Finalize();
  return 0;
}
