// A root continues before a late rank arrives, with broadcasts so small that they are kept for it:
//
//     ahead COUNT    rank 0 is the root of COUNT broadcasts and leaves, while rank 1 sleeps; then rank 1 receives them
//
// Rank 0 prints whether it had finished the first one before rank 1 began.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kBytes = 1000;
constexpr std::chrono::milliseconds kLate{1500};

void broadcast(std::vector<char>& buffer) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(buffer.data(), kBytes, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = argc > 1 ? std::atoi(argv[1]) : 1;
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  std::vector<char> buffer(kBytes);
  broadcast(buffer);  // all ranks have arrived
  MPI_Barrier(MPI_COMM_WORLD);
  if (me != 0) std::this_thread::sleep_for(kLate);
  const auto start = std::chrono::steady_clock::now();
  bool right = true;
  for (int i = 0; i < count; ++i) {
    const char value = static_cast<char>('a' + i % 26);
    std::fill(buffer.begin(), buffer.end(), me == 0 ? value : '\0');
    broadcast(buffer);
    if (me == 0 && i == 0 && std::chrono::steady_clock::now() - start < kLate / 2) std::puts("root: went ahead");
    if (me == 0) std::fill(buffer.begin(), buffer.end(), '?');  // the buffer is the root's again
    const bool same = std::all_of(buffer.begin(), buffer.end(), [value](char byte) { return byte == value; });
    right = right && (me == 0 || same);
  }
  if (me != 0) std::printf("rank %d: %s\n", me, right ? "all bytes right" : "WRONG DATA");
  MPI_Finalize();
  return 0;
}
