/* A typical profiling tool: MPI_X counts and calls PMPI_X, or, with TOOL_CALLS_NEXT, the loader's next MPI_X. With
   TOOL_WITHOUT_INIT it does not wrap MPI_Init. Rank 0 prints its counts in MPI_Finalize. Linked to no MPI: built with
   the headers of each, it finds PMPI_X in the program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

enum { kInit, kSend, kWait, kWaitall, kIalltoall, kCommDup, kCounts };
static const char* const names[kCounts] = {"Init", "Send", "Wait", "Waitall", "Ialltoall", "Comm_dup"};
static int counts[kCounts];

#if defined(TOOL_CALLS_NEXT)
#define GO_ON(name) ((__typeof__(&P##name))dlsym(RTLD_NEXT, #name))
#else
#define GO_ON(name) P##name
#endif

#if !defined(TOOL_WITHOUT_INIT)
int MPI_Init(int* argc, char*** argv) {
  ++counts[kInit];
  return GO_ON(MPI_Init)(argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  ++counts[kInit];
  return GO_ON(MPI_Init_thread)(argc, argv, required, provided);
}
#endif

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  ++counts[kSend];
  return GO_ON(MPI_Send)(buffer, count, type, to, tag, comm);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++counts[kWait];
  return GO_ON(MPI_Wait)(request, status);
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  ++counts[kWaitall];
  return GO_ON(MPI_Waitall)(count, requests, statuses);
}

int MPI_Ialltoall(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm, MPI_Request* request) {
  ++counts[kIalltoall];
  return GO_ON(MPI_Ialltoall)(send, send_count, send_type, receive, receive_count, receive_type, comm, request);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  ++counts[kCommDup];
  return GO_ON(MPI_Comm_dup)(comm, made);
}

int MPI_Finalize(void) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("tool:");
    for (int i = 0; i < kCounts; ++i) printf(" %s=%d", names[i], counts[i]);
    printf("\n");
    fflush(stdout);
  }
  return GO_ON(MPI_Finalize)();
}
