// Ranks whose last call before MPI_Finalize is a collective, with one late rank: the others may have left when it needs
// their data.
//
//   leave COLLECTIVE LATE MILLISECONDS    of ibcast, iallgather, ialltoall; the rank LATE enters this much later
//
// Every rank prints "leave: rank R has it" after it has compared the data.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kBlock = 1 << 18;  // of int: 1 MiB

int rank = 0;
int size = 0;

int value(int source, int destination, int i) {
  return source * 1000 + destination * 10 + i % 7;
}

// Blocks of the ranks from `first` on, as they must arrive at `destination`.
void check(const std::vector<int>& received, int first, int destination) {
  for (std::size_t i = 0; i < received.size(); ++i) {
    const int source = first + static_cast<int>(i) / kBlock;
    if (received[i] == value(source, destination, static_cast<int>(i) % kBlock)) continue;
    std::printf("leave: WRONG DATA at rank %d, element %zu\n", rank, i);
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

void fill(std::vector<int>& blocks, bool for_each) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const int destination = for_each ? static_cast<int>(i) / kBlock : 0;
    blocks[i] = value(rank, destination, static_cast<int>(i) % kBlock);
  }
}

void broadcast() {
  std::vector<int> block(kBlock);
  if (rank == 0) fill(block, false);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(block.data(), kBlock, MPI_INT, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check(block, 0, 0);
}

void gather() {
  std::vector<int> send(kBlock);
  std::vector<int> receive(static_cast<std::size_t>(size) * kBlock);
  fill(send, false);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(send.data(), kBlock, MPI_INT, receive.data(), kBlock, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check(receive, 0, 0);
}

void exchange() {
  std::vector<int> send(static_cast<std::size_t>(size) * kBlock);
  std::vector<int> receive(send.size());
  fill(send, true);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ialltoall(send.data(), kBlock, MPI_INT, receive.data(), kBlock, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check(receive, 0, rank);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string collective = argc > 1 ? argv[1] : "ibcast";
  const int late = argc > 2 ? std::atoi(argv[2]) : size - 1;
  const int late_ms = argc > 3 ? std::atoi(argv[3]) : 500;
  if (rank == late) usleep(static_cast<useconds_t>(late_ms) * 1000);
  if (collective == "ibcast") {
    broadcast();
  } else if (collective == "iallgather") {
    gather();
  } else if (collective == "ialltoall") {
    exchange();
  } else {
    std::fprintf(stderr, "leave: unknown collective %s\n", collective.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  std::printf("leave: rank %d has it\n", rank);
  std::fflush(stdout);
  MPI_Finalize();
  return 0;
}
