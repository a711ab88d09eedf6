// Calls whose dispatch plan may change. Some have blocks of a size that is offloaded unless the service process's core
// is taken; v-forms have phases of small and of large blocks. Several are outstanding on two communicators. Every byte
// is checked.
//
//   plans SECONDS [v]     v: v-forms only, on one communicator
//
// Rank 0 prints which process each rank is and "plans: ready", and at the end "plans: N calls, right".

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kLarge = 20'000;  // bytes a block
constexpr int kSmall = 100;
constexpr int kPhase = 48;  // calls with small blocks, then as many with large ones
constexpr std::size_t kOutstanding = 3;
constexpr int kCallsPerLook = 32;  // between reads of the clock

int rank = 0;
int size = 0;
long calls = 0;
bool right = true;

unsigned char byte_of(int from, int to, long call, std::size_t index) {
  return static_cast<unsigned char>(from * 31 + to * 17 + call * 7 + static_cast<long>(index % 251));
}

struct Call {
  long number = 0;
  int bytes = 0;
  bool gathers = false;
  std::vector<unsigned char> send;
  std::vector<unsigned char> receive;
  std::vector<int> counts;
  std::vector<int> displacements;
  MPI_Request request = MPI_REQUEST_NULL;

  void post(MPI_Comm comm, bool v, bool gather, int block) {
    number = calls++;
    bytes = block;
    gathers = gather;
    const auto blocks = static_cast<std::size_t>(size);
    send.resize(static_cast<std::size_t>(bytes) * blocks);
    receive.assign(static_cast<std::size_t>(bytes) * blocks, 0);
    counts.assign(blocks, bytes);
    displacements.resize(blocks);
    for (int to = 0; to < size; ++to) {
      displacements[static_cast<std::size_t>(to)] = to * bytes;
      for (std::size_t i = 0; i < static_cast<std::size_t>(bytes); ++i) {
        send[static_cast<std::size_t>(to * bytes) + i] = byte_of(rank, gathers ? 0 : to, number, i);
      }
    }
    if (v && gather) {
      MPI_Iallgatherv(send.data(), bytes, MPI_BYTE, receive.data(), counts.data(), displacements.data(), MPI_BYTE, comm,
                      &request);
    } else if (v) {
      MPI_Ialltoallv(send.data(), counts.data(), displacements.data(), MPI_BYTE, receive.data(), counts.data(),
                     displacements.data(), MPI_BYTE, comm, &request);
    } else if (gather) {
      MPI_Iallgather(send.data(), bytes, MPI_BYTE, receive.data(), bytes, MPI_BYTE, comm, &request);
    } else {
      MPI_Ialltoall(send.data(), bytes, MPI_BYTE, receive.data(), bytes, MPI_BYTE, comm, &request);
    }
  }
  void complete() {
    if (request == MPI_REQUEST_NULL) return;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int from = 0; from < size; ++from) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(bytes); ++i) {
        right = right &&
                receive[static_cast<std::size_t>(from * bytes) + i] == byte_of(from, gathers ? 0 : rank, number, i);
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const bool only_v = argc > 2 && std::strcmp(argv[2], "v") == 0;
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  std::mt19937 alike(42);  // the same on all ranks
  std::vector<Call> outstanding(kOutstanding);
  const int own = static_cast<int>(getpid());
  std::vector<int> processes(static_cast<std::size_t>(size));
  MPI_Gather(&own, 1, MPI_INT, processes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < size; ++i) {
    std::printf("plans: rank %d is process %d\n", i, processes[static_cast<std::size_t>(i)]);
  }
  if (rank == 0) std::printf("plans: ready\n");
  std::fflush(stdout);
  const double begin = MPI_Wtime();
  for (int go = 1; go != 0;) {
    for (int i = 0; i < kCallsPerLook; ++i) {
      const auto draw = alike();
      const bool large = only_v ? calls / kPhase % 2 != 0 : draw % 5 != 0;
      Call& call = outstanding[static_cast<std::size_t>(calls) % kOutstanding];
      call.complete();
      MPI_Comm comm = !only_v && draw % 2 == 0 ? other : MPI_COMM_WORLD;
      call.post(comm, only_v || draw % 3 == 0, draw % 7 < 3, large ? kLarge : kSmall);
    }
    go = MPI_Wtime() - begin < seconds ? 1 : 0;
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  for (Call& call : outstanding) call.complete();
  MPI_Comm_free(&other);
  const int mine = right ? 1 : 0;
  int all = 0;
  MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("plans: %ld calls, %s\n", calls, all != 0 ? "right" : "WRONG DATA");
  MPI_Finalize();
  return right ? 0 : 1;
}
