// Calls collectives from different places: directly, by one library from two functions, and waits for them. Each prints
// nothing; the report's places are compared with this file's lines (test_sites.py).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sites_library.h"

enum { kCount = 64 };
static int sent[kCount * 16];
static int received[kCount * 16];

__attribute__((noinline)) static void direct(MPI_Comm comm) {
  MPI_Allreduce(sent, received, kCount, MPI_INT, MPI_SUM, comm);  // place: direct
  __asm__ volatile("");
}

__attribute__((noinline)) static void first(MPI_Comm comm) {
  sites_library_exchange(sent, received, kCount, comm);  // place: first
  __asm__ volatile("");
}

__attribute__((noinline)) static void second(int depth, MPI_Comm comm) {
  if (depth > 0) {  // other depths of the stack
    second(depth - 1, comm);
  } else {
    sites_library_exchange(sent, received, kCount, comm);  // place: second
  }
  __asm__ volatile("");
}

__attribute__((noinline)) static void waits(MPI_Comm comm) {
  MPI_Request request;
  MPI_Ibcast(sent, kCount, MPI_INT, 0, comm, &request);  // place: starts
  MPI_Wait(&request, MPI_STATUS_IGNORE);                 // place: waits
  __asm__ volatile("");
}

// From code that is in no file, as just-in-time compilers make it.
static void generated(MPI_Comm comm) {
#if defined(__x86_64__)
  static int (*code)(MPI_Comm);
  if (code == NULL) {
    // sub $8, %rsp; movabs $MPI_Barrier, %rax; call *%rax; add $8, %rsp; ret
    unsigned char bytes[] = {0x48, 0x83, 0xec, 0x08, 0x48, 0xb8, 0,    0,    0,    0,   0,
                             0,    0,    0,    0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};
    int (*const barrier)(MPI_Comm) = &MPI_Barrier;
    memcpy(bytes + 6, &barrier, sizeof(barrier));
    void* const page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, bytes, sizeof(bytes));
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    memcpy(&code, &page, sizeof(code));
  }
  code(comm);
#else
  (void)comm;
#endif
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 10;
  MPI_Init(&argc, &argv);
  for (int i = 0; i < rounds; ++i) {
    direct(MPI_COMM_WORLD);
    first(MPI_COMM_WORLD);
    second(i % 3, MPI_COMM_WORLD);
    waits(MPI_COMM_WORLD);
    generated(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
