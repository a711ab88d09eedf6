// Rows of calls with lists, first of short blocks and then of long ones. Ranks cannot know the lengths of the others.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kCalls = 800;

int rank = 0;
int ranks = 0;

struct Lists {
  explicit Lists(int block_bytes)
      : bytes(block_bytes),
        counts(static_cast<std::size_t>(ranks), block_bytes),
        places(counts.size()),
        sent(counts.size() * static_cast<std::size_t>(block_bytes)),
        received(sent.size()) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(i) * block_bytes;
  }
  int bytes;
  std::vector<int> counts;
  std::vector<int> places;
  std::vector<std::uint8_t> sent;
  std::vector<std::uint8_t> received;
};

using Call = void (*)(Lists&);

void gather(Lists& lists) {
  MPI_Gatherv(lists.sent.data(), lists.bytes, MPI_BYTE, lists.received.data(), lists.counts.data(), lists.places.data(),
              MPI_BYTE, 0, MPI_COMM_WORLD);
}
void scatter(Lists& lists) {
  MPI_Scatterv(lists.sent.data(), lists.counts.data(), lists.places.data(), MPI_BYTE, lists.received.data(),
               lists.bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}
void exchange(Lists& lists) {
  MPI_Alltoallv(lists.sent.data(), lists.counts.data(), lists.places.data(), MPI_BYTE, lists.received.data(),
                lists.counts.data(), lists.places.data(), MPI_BYTE, MPI_COMM_WORLD);
}
void exchange_types(Lists& lists) {
  const std::vector<MPI_Datatype> types(lists.counts.size(), MPI_BYTE);
  MPI_Alltoallw(lists.sent.data(), lists.counts.data(), lists.places.data(), types.data(), lists.received.data(),
                lists.counts.data(), lists.places.data(), types.data(), MPI_COMM_WORLD);
}

// Every rank sends its number, in all bytes.
void expect(const Lists& lists, int block, int sender) {
  for (int i = 0; i < lists.bytes; ++i) {
    if (lists.received[static_cast<std::size_t>(block) * static_cast<std::size_t>(lists.bytes) +
                       static_cast<std::size_t>(i)] == sender + 1)
      continue;
    std::printf("rank %d has a wrong byte in block %d\n", rank, block);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

void make_row(Call call, int bytes) {
  Lists lists(bytes);
  lists.sent.assign(lists.sent.size(), static_cast<std::uint8_t>(rank + 1));
  for (int i = 0; i < kCalls; ++i) call(lists);
  for (int block = 0; block < ranks; ++block) {
    if (call == scatter && block == 0) expect(lists, block, 0);
    if (call == exchange || call == exchange_types || (call == gather && rank == 0)) expect(lists, block, block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Call call : {gather, scatter, exchange, exchange_types}) {
    for (const int bytes : {8, 16'384, 8}) make_row(call, bytes);
  }
  if (rank == 0) std::printf("all blocks are right\n");
  MPI_Finalize();
  return 0;
}
