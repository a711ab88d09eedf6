// CPU time of the service processes, and the bytes that the network has to carry.
#pragma once

#include "workload.h"

typedef struct {
  int processes;           // in the job
  int cpus;                // usable by ranks and service processes: of the machine with the fewest
  double cpu_us;           // of all service processes, per operation
  double floor_us;         // lower bound of what that adds to the ranks' own work
  double wire_bytes;       // between nodes, per operation; each byte once
  double node_wire_bytes;  // most that one node receives per operation
} ServiceFigures;

// Service processes are processes called `name` that have started since this rank did; the node's ranks share them.
// Collective over MPI_COMM_WORLD, after MPI_Init has started them.
void service_open(const char* name);
void service_close(void);

// To be called around some operations. Collective over MPI_COMM_WORLD. `work_us`: time of the ranks' own work alone per
// operation. The figures are valid on rank 0 only.
void service_begin(void);
void service_end(int operations, double work_us, const Workload* workload, ServiceFigures* figures);
