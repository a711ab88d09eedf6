// Times its own calls: `timed nonblocking ROUNDS` or `timed persistent ROUNDS` posts an all-to-all, computes and waits.
// Rank 0 prints the seconds of a rank, the mean of all: in the starting calls, between the calls, and in the waits.
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "persistent_calls.hpp"

namespace {

constexpr int kBlock = 1 << 16;

void compute(double seconds) {
  const double until = MPI_Wtime() + seconds;
  while (MPI_Wtime() < until) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool persistent = std::string_view(argv[1]) == "persistent";
  const int rounds = std::atoi(argv[2]);
  MPI_Init(&argc, &argv);
  int size = 0;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<char> send(static_cast<std::size_t>(size) * kBlock, static_cast<char>(rank));
  std::vector<char> receive(send.size());
  MPI_Request request = MPI_REQUEST_NULL;
  if (persistent) {
    const auto init = persistent::look_up<persistent::Calls::Regular>("Alltoall_init");
    if (init == nullptr) return MPI_Finalize() == MPI_SUCCESS ? 77 : 1;
    init(send.data(), kBlock, MPI_CHAR, receive.data(), kBlock, MPI_CHAR, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  }
  std::array<double, 3> spent{};
  for (int round = 0; round < rounds; ++round) {
    const double began = MPI_Wtime();
    if (persistent) {
      MPI_Start(&request);
    } else {
      MPI_Ialltoall(send.data(), kBlock, MPI_CHAR, receive.data(), kBlock, MPI_CHAR, MPI_COMM_WORLD, &request);
    }
    const double started = MPI_Wtime();
    compute(2e-3);
    const double waits = MPI_Wtime();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const double ended = MPI_Wtime();
    spent[0] += started - began;
    spent[1] += waits - started;
    spent[2] += ended - waits;
  }
  if (persistent) MPI_Request_free(&request);
  std::array<double, 3> all{};
  MPI_Reduce(spent.data(), all.data(), 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("timed %.9f %.9f %.9f\n", all[0] / size, all[1] / size, all[2] / size);
  MPI_Finalize();
  return 0;
}
