/* A profiling tool as others write them: MPI_X counts and calls PMPI_X. Rank 0 prints its counts in MPI_Finalize.
   Linked to no MPI: built with the headers of each, it finds PMPI_X in the program. */
#include <mpi.h>
#include <stdio.h>

enum { kInit, kSend, kWait, kWaitall, kIalltoall, kCommDup, kCounts };
static const char* const names[kCounts] = {"Init", "Send", "Wait", "Waitall", "Ialltoall", "Comm_dup"};
static int counts[kCounts];

int MPI_Init(int* argc, char*** argv) {
  ++counts[kInit];
  return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  ++counts[kInit];
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  ++counts[kSend];
  return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++counts[kWait];
  return PMPI_Wait(request, status);
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  ++counts[kWaitall];
  return PMPI_Waitall(count, requests, statuses);
}

int MPI_Ialltoall(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm, MPI_Request* request) {
  ++counts[kIalltoall];
  return PMPI_Ialltoall(send, send_count, send_type, receive, receive_count, receive_type, comm, request);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  ++counts[kCommDup];
  return PMPI_Comm_dup(comm, made);
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
  return PMPI_Finalize();
}
