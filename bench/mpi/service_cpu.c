#include "service_cpu.h"

#include <ctype.h>
#include <dirent.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"

enum { kMaxProcesses = 256 };

static MPI_Comm node = MPI_COMM_NULL;
static MPI_Comm machine = MPI_COMM_NULL;
static clockid_t clocks[kMaxProcesses];  // of the node's service processes, only on the node's first rank
static int processes;
static int cpus;         // usable by the machine's ranks and service processes
static int rank_cpus;    // usable by its ranks
static bool shares_cpu;  // ranks and service processes have a common CPU
static double begun_s;

typedef struct {
  char name[32];
  unsigned long long started;  // ticks since boot
} ProcessStat;

// From /proc/PID/stat: "PID (name) state ...", where the name may contain anything and the start is field 22.
static bool read_stat(const char* pid, ProcessStat* stat) {
  char path[300];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  FILE* file = fopen(path, "re");
  if (!file) return false;
  const size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[bytes] = 0;
  char* open = strchr(text, '(');
  char* close = strrchr(text, ')');
  if (!open || !close || close < open) return false;
  *close = 0;
  snprintf(stat->name, sizeof stat->name, "%.31s", open + 1);
  char* rest = NULL;
  char* word = strtok_r(close + 1, " ", &rest);
  for (int field = 3; word && field < 22; field++) word = strtok_r(NULL, " ", &rest);
  if (!word) return false;
  stat->started = strtoull(word, NULL, 10);
  return true;
}

static void add_affinity(pid_t pid, cpu_set_t* set) {
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(pid, sizeof own, &own) == 0) CPU_OR(set, set, &own);
}

// The keeper has the same name and is almost idle.
static bool serves(const char* pid) {
  char path[300];
  char words[64] = {0};
  snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
  FILE* file = fopen(path, "re");
  if (!file) return false;
  const size_t bytes = fread(words, 1, sizeof words - 2, file);
  fclose(file);
  return bytes > 0 && strcmp(words + strlen(words) + 1, "serve") == 0;
}

static void find_processes(const char* name, cpu_set_t* set) {
  ProcessStat self;
  ProcessStat other;
  DIR* directory = opendir("/proc");
  if (!directory) return;
  const bool known = read_stat("self", &self);
  for (struct dirent* entry = readdir(directory); known && entry; entry = readdir(directory)) {
    if (!isdigit((unsigned char)entry->d_name[0]) || !read_stat(entry->d_name, &other)) continue;
    if (strcmp(other.name, name) != 0 || other.started < self.started || processes == kMaxProcesses) continue;
    const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (clock_getcpuclockid(pid, &clocks[processes]) != 0) continue;
    if (serves(entry->d_name)) add_affinity(pid, set);
    processes++;
  }
  closedir(directory);
}

static void add_other_ranks(cpu_set_t* set) {
  MPI_Allreduce(MPI_IN_PLACE, set, (int)sizeof *set, MPI_BYTE, MPI_BOR, machine);
}

void service_open(const char* name) {
  int rank;
  cpu_set_t ranks_may;
  cpu_set_t services_may;
  cpu_set_t set;
  CPU_ZERO(&ranks_may);
  CPU_ZERO(&services_may);
  machine = machine_split();
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank);
  add_affinity(0, &ranks_may);
  add_other_ranks(&ranks_may);
  if (rank == 0) find_processes(name, &services_may);
  add_other_ranks(&services_may);
  CPU_OR(&set, &ranks_may, &services_may);
  rank_cpus = CPU_COUNT(&ranks_may);
  cpus = CPU_COUNT(&set);
  CPU_AND(&set, &ranks_may, &services_may);
  shares_cpu = CPU_COUNT(&set) > 0;
}

void service_close(void) {
  MPI_Comm_free(&node);
  MPI_Comm_free(&machine);
}

static double cpu_of_node_s(void) {
  double seconds = 0;
  for (int i = 0; i < processes; i++) {
    struct timespec time;
    if (clock_gettime(clocks[i], &time) == 0) seconds += (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
  }
  return seconds;
}

void service_begin(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  begun_s = cpu_of_node_s();
}

// Work and service processes together take at least their CPU time divided by the number of CPUs. Service processes on
// separate cores do not count.
static double floor_of_machine_us(double work_us, double service_us) {
  if (!shares_cpu) return 0;
  int ranks;
  MPI_Comm_size(machine, &ranks);
  const double busy = ranks < rank_cpus ? ranks : rank_cpus;
  const double longer_us = (busy * work_us + service_us) / cpus - work_us;
  return longer_us > 0 ? longer_us : 0;
}

void service_end(int operations, double work_us, const Workload* workload, ServiceFigures* figures) {
  int local;
  int local_rank;
  MPI_Comm_size(node, &local);
  MPI_Comm_rank(node, &local_rank);
  double service_us = 1e6 * (cpu_of_node_s() - begun_s) / operations;
  const double on_node = local_rank == 0 ? workload_received_by_node(workload, local, workload->rank == 0) : 0;
  MPI_Bcast(&work_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Reduce(&service_us, &figures->cpu_us, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&on_node, &figures->wire_bytes, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&on_node, &figures->node_wire_bytes, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&processes, &figures->processes, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&cpus, &figures->cpus, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &service_us, 1, MPI_DOUBLE, MPI_SUM, machine);
  const double floor_us = floor_of_machine_us(work_us, service_us);
  MPI_Reduce(&floor_us, &figures->floor_us, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}
