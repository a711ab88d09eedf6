// Programs that collect their children see only their own, at any time.
//
//     children handler|thread|ignored|adopting
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

namespace {

constexpr int kOwnStatus = 7;

std::atomic<int> signals = 0;
std::atomic<int> strangers = 0;
std::atomic<int> own = 0;

void collect() {
  int status = 0;
  while (waitpid(-1, &status, WNOHANG) > 0)
    ++(WIFEXITED(status) && WEXITSTATUS(status) == kOwnStatus ? own : strangers);
}

void on_child(int /*signal*/) {
  const int error = errno;
  ++signals;
  collect();
  errno = error;
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, nullptr);
}

int sum_of_ranks() {
  int rank = 0;
  int sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return sum;
}

// Returns when it has ended and, unless the kernel does that, has been collected and counted.
void have_a_child(bool is_counted) {
  const pid_t child = fork();
  if (child == 0) _exit(kOwnStatus);
  while (kill(child, 0) == 0 || (is_counted && own == 0)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "handler";
  std::atomic<bool> over = false;
  std::thread reaper;
  if (mode == "adopting") prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (mode == "ignored") {
    handle(SIG_IGN);
  } else if (mode == "thread") {
    reaper = std::thread([&over] {
      while (!over) {
        collect();
        std::this_thread::yield();
      }
    });
  } else {
    handle(&on_child);
  }
  MPI_Init(&argc, &argv);
  int size = 0;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  have_a_child(mode != "ignored");
  const bool right = sum_of_ranks() == size * (size - 1) / 2;
  over = true;
  if (reaper.joinable()) reaper.join();
  const bool has_children = waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD;
  std::printf("rank %d of %d: %d signals, %d children of its own, %d strangers, %s left, sum %s\n", rank, size,
              signals.load(), own.load(), strangers.load(), has_children ? "children are" : "none is",
              right ? "right" : "WRONG");
  std::fflush(stdout);
  MPI_Finalize();
  return 0;
}
