// Two ranks, each of which has a core by the launcher's choice. Rank 1 waits in a receive while another thread computes
// on its core. Rank 0 sends as soon as rank 1 sleeps in its receive, and prints that.
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

// Number of times that a process has given its core away by itself; -1: unknown.
long sleeps_of(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return -1;
  char line[256];
  long sleeps = -1;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps) == 1) break;
  }
  std::fclose(file);
  return sleeps;
}

void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

void send_when_it_sleeps(int pid, int cpu, int tries) {
  std::atomic<bool> stop = false;
  std::thread computation([&] {
    bind_to(cpu);
    while (!stop.load(std::memory_order_relaxed)) {
    }
  });
  const long before = sleeps_of(pid);
  int left = tries;
  while (sleeps_of(pid) - before < 100 && --left > 0) usleep(10'000);
  stop = true;
  computation.join();
  std::printf("%s\n", left > 0 ? "rank 1 sleeps" : "rank 1 does not sleep");
}

}  // namespace

int main(int count, char** words) {
  const int tries = count > 1 ? std::atoi(words[1]) : 6000;
  int provided = 0;
  int rank = 0;
  MPI_Init_thread(&count, &words, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int place[2] = {getpid(), sched_getcpu()};
  if (rank == 1) {
    bind_to(place[1]);
    MPI_Send(place, 2, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(place, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) {
    MPI_Recv(place, 2, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    send_when_it_sleeps(place[0], place[1], tries);
    MPI_Send(place, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
