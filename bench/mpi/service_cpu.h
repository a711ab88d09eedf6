// CPU time of the processes that move data for the ranks, and what the network has to carry.
#pragma once

#include "workload.h"

typedef struct {
  int processes;           // of the job
  int cpus;                // that ranks and service processes of one machine may use; the fewest of all machines
  double cpu_us;           // of all service processes, for one operation
  double floor_us;         // what that adds to the ranks' own work at least, with nothing else to do
  double wire_bytes;       // between nodes in one operation, each byte once
  double node_wire_bytes;  // the most that one node receives in one operation
} ServiceFigures;

// Service processes are those called `name` that have started since this rank did; ranks of this node share them.
// Collective over MPI_COMM_WORLD, after MPI_Init has started them.
void service_open(const char* name);
void service_close(void);

// Around some operations: collective over MPI_COMM_WORLD. `work_us`: how long the ranks' own work takes alone in each
// of them. The figures are valid on rank 0 only.
void service_begin(void);
void service_end(int operations, double work_us, const Workload* workload, ServiceFigures* figures);
