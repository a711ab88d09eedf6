// Works for a while, so that processes can be killed or measured meanwhile.
//
//   steady operations SECONDS   operations without pause
//   steady large SECONDS        the same with large blocks, for which all ranks wait at once
//   steady larger SECONDS       the same with blocks of some megabytes
//   steady overlap SECONDS      blocks of 200 KB, and ranks compute for some milliseconds before they wait
//   steady late SECONDS         the same with large blocks
//   steady compute SECONDS      one operation outstanding, ranks compute without MPI, over and over for a second each
//   steady wait SECONDS         all ranks but the last wait for an operation that the last one enters at the end
//   steady fork SECONDS         operations without pause; sometimes a child is forked with one outstanding
//   steady idle SECONDS         nothing outstanding, ranks asleep
//
// Rank 0 prints "steady: rank R is process P" for each rank and, when all work, "steady: ready": launchers keep only
// one rank's lines in order. It prints "steady: under way" after its first operations without pause, or when one is
// outstanding. It notes each operation that it has finished (progress.hpp).

#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "progress.hpp"

namespace {

using Clock = std::chrono::steady_clock;

int rank = 0;
int size = 0;

void say_ready() {
  const int own = static_cast<int>(getpid());
  std::vector<int> processes(static_cast<std::size_t>(size));
  MPI_Gather(&own, 1, MPI_INT, processes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  for (int i = 0; i < size; ++i) {
    std::printf("steady: rank %d is process %d\n", i, processes[static_cast<std::size_t>(i)]);
  }
  std::printf("steady: ready\n");
  std::fflush(stdout);
}

// Once.
void say_under_way() {
  static bool said = false;
  if (rank != 0 || std::exchange(said, true)) return;
  std::printf("steady: under way\n");
  std::fflush(stdout);
}

void compute_until(Clock::time_point end) {
  volatile double value = 1;
  while (Clock::now() < end) {
    for (int i = 0; i < 10'000; ++i) value = value * 1.0000001 + 1e-9;
  }
}

class Exchange {
 public:
  explicit Exchange(int block) : block_(block) {
    const auto elements = static_cast<std::size_t>(block * size);
    send_.assign(elements, rank);
    receive_.assign(elements, -1);
  }
  void post() {
    ++round_;
    for (std::size_t i = 0; i < send_.size(); ++i) send_[i] = value(rank, i);
    MPI_Ialltoall(send_.data(), block_, MPI_INT, receive_.data(), block_, MPI_INT, MPI_COMM_WORLD, &request_);
  }
  void wait() {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    const auto block = static_cast<std::size_t>(block_);
    for (std::size_t i = 0; i < receive_.size(); ++i) {
      const auto peer = static_cast<int>(i / block);
      if (receive_[i] == value(peer, static_cast<std::size_t>(rank) * block + i % block)) continue;
      std::printf("steady: WRONG DATA\n");
      std::fflush(stdout);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    receive_.assign(receive_.size(), -1);
    if (rank == 0) note_progress();
  }

  // A child that overwrites its copy of the buffers while the parent's are being filled.
  void spoil_in_child() {
    const pid_t pid = fork();
    if (pid == 0) {
      send_.assign(send_.size(), -2);
      receive_.assign(receive_.size(), -3);
      _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
      std::printf("steady: a child failed\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

 private:
  // `sender`'s element `i` in this round: a late copy of an earlier round is detected.
  [[nodiscard]] int value(int sender, std::size_t i) const {
    return sender + 100 * round_ + 7 * static_cast<int>(i % 1000);
  }

  int block_;
  int round_ = 0;
  std::vector<int> send_, receive_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// All ranks make the same number of rounds: rank 0 decides when to stop.
bool go_on(Clock::time_point end) {
  int more = Clock::now() < end ? 1 : 0;
  MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return more != 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string mode = argc > 1 ? argv[1] : "operations";
  const int seconds = argc > 2 ? std::atoi(argv[2]) : 10;
  Exchange first(20'000);
  first.post();
  first.wait();
  say_ready();
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  if (mode == "operations" || mode == "fork") {
    Exchange exchange(30'000);
    do {
      for (int i = 0; i < 20; ++i) {
        exchange.post();
        if (mode == "fork" && i % 4 == rank % 4) exchange.spoil_in_child();
        exchange.wait();
      }
      say_under_way();
    } while (go_on(end));
  } else if (mode == "large" || mode == "larger" || mode == "overlap" || mode == "late") {
    Exchange exchange(mode == "larger" ? 4'000'000 : mode == "overlap" ? 50'000 : 500'000);
    do {
      for (int i = 0; i < 4; ++i) {
        exchange.post();
        if (mode == "overlap" || mode == "late") compute_until(Clock::now() + std::chrono::milliseconds(5));
        exchange.wait();
      }
      say_under_way();
    } while (go_on(end));
  } else if (mode == "compute") {
    Exchange exchange(1000);
    do {
      // The last rank is late, so the operation stays outstanding while the others compute.
      if (rank != size - 1) exchange.post();
      say_under_way();
      compute_until(Clock::now() + std::chrono::seconds(seconds < 20 ? seconds : 20));
      if (rank == size - 1) exchange.post();
      exchange.wait();
    } while (go_on(end));
  } else if (mode == "wait") {
    Exchange exchange(30'000);
    if (rank == size - 1) sleep(static_cast<unsigned>(seconds));
    exchange.post();
    say_under_way();
    exchange.wait();
  } else if (mode == "idle") {
    say_under_way();
    sleep(static_cast<unsigned>(seconds));
  } else {
    std::fprintf(stderr, "steady: unknown mode %s\n", mode.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return 0;
}
