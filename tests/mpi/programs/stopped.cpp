// Ranks are stopped (SIGSTOP) after their posts. Tests that other processes move their data.
//
//   stopped BYTES LIMIT_S   a block from every rank to every rank, ROUNDS times; natively it fails at the limit
//
// A child of each rank, forked before MPI_Init, shares the rank's receive buffer. When its rank is stopped, the child
// waits for the blocks of all others and continues the rank, which copies its own block. Rank 0 posts when the others
// have been stopped for a while.

#include <mpi.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kRounds = 3;
constexpr int kMaxRanks = 8;

// Shared by a rank and its child.
struct Shared {
  std::atomic<int> round{0};  // that the rank has posted
  std::atomic<int> ranks{0};
  std::atomic<int> rank{0};
};

unsigned char value(int sender, int receiver, int round, std::size_t i) {
  return static_cast<unsigned char>(1 + (static_cast<std::size_t>(sender * 31 + receiver * 7 + round) + i / 64) % 250);
}

template <typename T>
T* shared_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("stopped: mmap");
    std::exit(1);
  }
  return static_cast<T*>(memory);
}

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

// A rank whose block is missing, other than `not_from`; -1: none.
int missing_sender(const Shared& shared, const volatile unsigned char* received, std::size_t bytes, int round,
                   int not_from = -1) {
  for (int sender = 0; sender < shared.ranks; ++sender) {
    for (std::size_t i = 0; i < bytes && sender != not_from; ++i) {
      if (received[static_cast<std::size_t>(sender) * bytes + i] != value(sender, shared.rank, round, i)) return sender;
    }
  }
  return -1;
}

// Watches one rank until it is gone. Kills it if its data does not come.
[[noreturn]] void watch(const Shared& shared, const unsigned char* received, std::size_t bytes, milliseconds limit) {
  const pid_t rank = ::getppid();
  for (int round = 1; round <= kRounds; ++round) {
    while (shared.round < round || state_of(rank) != 'T') {
      if (::getppid() != rank) ::_exit(1);
      std::this_thread::sleep_for(milliseconds(1));
    }
    const Clock::time_point end = Clock::now() + limit;
    for (int missing = 0; (missing = missing_sender(shared, received, bytes, round, shared.rank)) >= 0;) {
      if (Clock::now() > end) {
        std::printf("stopped: round %d: rank %d stands still and has not got the block of rank %d\n", round,
                    shared.rank.load(), missing);
        std::fflush(stdout);
        ::kill(rank, SIGKILL);
        ::_exit(1);
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    ::kill(rank, SIGCONT);
  }
  ::_exit(0);
}

void run(Shared& shared, unsigned char* received, std::size_t bytes) {
  const int rank = shared.rank;
  const int ranks = shared.ranks;
  std::vector<unsigned char> sent(bytes * static_cast<std::size_t>(ranks));
  for (int round = 1; round <= kRounds; ++round) {
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i] = value(rank, static_cast<int>(i / bytes), round, i % bytes);
    }
    std::memset(received, 0, sent.size());
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::this_thread::sleep_for(milliseconds(300));
    MPI_Request request = MPI_REQUEST_NULL;
    const int count = static_cast<int>(bytes);
    MPI_Ialltoall(sent.data(), count, MPI_BYTE, received, count, MPI_BYTE, MPI_COMM_WORLD, &request);
    shared.round = round;
    (void)::raise(SIGSTOP);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (const int missing = missing_sender(shared, received, bytes, round); missing >= 0) {
      std::printf("stopped: round %d: rank %d has WRONG DATA of rank %d\n", round, rank, missing);
      std::fflush(stdout);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1U << 20;
  const milliseconds limit(1000 * (argc > 2 ? std::atol(argv[2]) : 10));
  auto* shared = new (shared_memory<Shared>(sizeof(Shared))) Shared;
  auto* received = shared_memory<unsigned char>(bytes * kMaxRanks);
  const pid_t child = ::fork();
  if (child == 0) watch(*shared, received, bytes, limit);
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > kMaxRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  shared->rank = rank;
  shared->ranks = ranks;
  run(*shared, received, bytes);
  int status = 0;
  const bool good = ::waitpid(child, &status, 0) == child && status == 0;
  if (good) std::printf("stopped: rank %d was served while it stood still\n", rank);
  MPI_Finalize();
  return good ? 0 : 1;
}
