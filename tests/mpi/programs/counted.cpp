// Calls every collective a known number of times with known sizes, for tests of the report:
//
//     counted all ROUNDS         each blocking and nonblocking form, ROUNDS times
//     counted persistent ROUNDS  if the MPI has them: two persistent ones, and one with large counts, once
//     counted end HOW            a few, then rank 1, or TEST_RANK, ends the job: abort CODE, signal [NUMBER],
//                                exit CODE; others sleep
//     counted bad WHICH          rank 1 passes an inaccessible send or receive buffer, and prints its address
//     counted tests ROUNDS       sleeps for 5 ms after a nonblocking all-to-all, tests it three times too early, and
//                                waits
//     counted late               rank 1 comes late to each barrier
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kBlock = 1000;  // bytes

struct Buffers {
  explicit Buffers(int ranks)
      : send(static_cast<std::size_t>(ranks) * kBlock),
        receive(send.size()),
        counts(static_cast<std::size_t>(ranks), kBlock),
        offsets(counts.size()),
        types(counts.size(), MPI_CHAR) {
    for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int>(i) * kBlock;
  }
  std::vector<char> send;
  std::vector<char> receive;
  std::vector<int> counts;
  std::vector<int> offsets;
  std::vector<MPI_Datatype> types;
};

struct Neighbors {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<MPI_Aint> offsets;
};

// A ring: two neighbors to send to.
Neighbors make_ring(int ranks) {
  Neighbors ring;
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring.comm);
  ring.offsets = {0, kBlock};
  return ring;
}

void call_blocking(Buffers& b, const Neighbors& ring, MPI_Comm comm) {
  char* s = b.send.data();
  char* r = b.receive.data();
  const int* c = b.counts.data();
  const int* o = b.offsets.data();
  const MPI_Datatype* t = b.types.data();
  MPI_Barrier(comm);
  MPI_Bcast(s, kBlock, MPI_CHAR, 0, comm);
  MPI_Gather(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, 0, comm);
  MPI_Gatherv(s, kBlock, MPI_CHAR, r, c, o, MPI_CHAR, 0, comm);
  MPI_Scatter(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, 0, comm);
  MPI_Scatterv(s, c, o, MPI_CHAR, r, kBlock, MPI_CHAR, 0, comm);
  MPI_Allgather(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, comm);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, r, c, o, MPI_CHAR, comm);
  MPI_Alltoall(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, comm);
  MPI_Alltoallv(s, c, o, MPI_CHAR, r, c, o, MPI_CHAR, comm);
  MPI_Alltoallw(s, c, o, t, r, c, o, t, comm);
  MPI_Reduce(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, 0, comm);
  MPI_Allreduce(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm);
  MPI_Reduce_scatter(s, r, c, MPI_SIGNED_CHAR, MPI_MAX, comm);
  MPI_Reduce_scatter_block(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm);
  MPI_Scan(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm);
  MPI_Exscan(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm);
  MPI_Neighbor_allgather(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, ring.comm);
  MPI_Neighbor_allgatherv(s, kBlock, MPI_CHAR, r, c, o, MPI_CHAR, ring.comm);
  MPI_Neighbor_alltoall(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, ring.comm);
  MPI_Neighbor_alltoallv(s, c, o, MPI_CHAR, r, c, o, MPI_CHAR, ring.comm);
  MPI_Neighbor_alltoallw(s, c, ring.offsets.data(), t, r, c, ring.offsets.data(), t, ring.comm);
}

void wait(MPI_Request& request) {
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void call_nonblocking(Buffers& b, const Neighbors& ring, MPI_Comm comm) {
  char* s = b.send.data();
  char* r = b.receive.data();
  const int* c = b.counts.data();
  const int* o = b.offsets.data();
  const MPI_Datatype* t = b.types.data();
  MPI_Request q = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &q), wait(q);
  MPI_Ibcast(s, kBlock, MPI_CHAR, 0, comm, &q), wait(q);
  MPI_Igather(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, 0, comm, &q), wait(q);
  MPI_Igatherv(s, kBlock, MPI_CHAR, r, c, o, MPI_CHAR, 0, comm, &q), wait(q);
  MPI_Iscatter(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, 0, comm, &q), wait(q);
  MPI_Iscatterv(s, c, o, MPI_CHAR, r, kBlock, MPI_CHAR, 0, comm, &q), wait(q);
  MPI_Iallgather(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, comm, &q), wait(q);
  MPI_Iallgatherv(s, kBlock, MPI_CHAR, r, c, o, MPI_CHAR, comm, &q), wait(q);
  MPI_Ialltoall(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, comm, &q), wait(q);
  MPI_Ialltoallv(s, c, o, MPI_CHAR, r, c, o, MPI_CHAR, comm, &q), wait(q);
  MPI_Ialltoallw(s, c, o, t, r, c, o, t, comm, &q), wait(q);
  MPI_Ireduce(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, 0, comm, &q), wait(q);
  MPI_Iallreduce(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm, &q), wait(q);
  MPI_Ireduce_scatter(s, r, c, MPI_SIGNED_CHAR, MPI_MAX, comm, &q), wait(q);
  MPI_Ireduce_scatter_block(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm, &q), wait(q);
  MPI_Iscan(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm, &q), wait(q);
  MPI_Iexscan(s, r, kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm, &q), wait(q);
  MPI_Ineighbor_allgather(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, ring.comm, &q), wait(q);
  MPI_Ineighbor_allgatherv(s, kBlock, MPI_CHAR, r, c, o, MPI_CHAR, ring.comm, &q), wait(q);
  MPI_Ineighbor_alltoall(s, kBlock, MPI_CHAR, r, kBlock, MPI_CHAR, ring.comm, &q), wait(q);
  MPI_Ineighbor_alltoallv(s, c, o, MPI_CHAR, r, c, o, MPI_CHAR, ring.comm, &q), wait(q);
  MPI_Ineighbor_alltoallw(s, c, ring.offsets.data(), t, r, c, ring.offsets.data(), t, ring.comm, &q), wait(q);
}

// A few persistent forms, started ROUNDS times, and one with large counts.
void call_persistent([[maybe_unused]] Buffers& b, [[maybe_unused]] MPI_Comm comm, [[maybe_unused]] int rounds) {
#if MPI_VERSION >= 4
  MPI_Request q[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Allreduce_init(b.send.data(), b.receive.data(), kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm, MPI_INFO_NULL, &q[0]);
  MPI_Barrier_init(comm, MPI_INFO_NULL, &q[1]);
  for (int i = 0; i < rounds; ++i) {
    MPI_Start(&q[0]), MPI_Wait(&q[0], MPI_STATUS_IGNORE);
    MPI_Startall(2, q), MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
  }
  MPI_Request_free(&q[0]), MPI_Request_free(&q[1]);
  MPI_Allreduce_c(b.send.data(), b.receive.data(), kBlock, MPI_SIGNED_CHAR, MPI_MAX, comm);
#endif
}

// Not counted: natively rejected.
void call_wrongly(Buffers& b) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Bcast(b.send.data(), -1, MPI_CHAR, 0, MPI_COMM_WORLD);
}

void call_all(Buffers& b, int ranks, int rounds) {
  MPI_Comm alone = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_SELF, &alone);
  const Neighbors ring = make_ring(ranks);
  for (int i = 0; i < rounds; ++i) {
    call_blocking(b, ring, MPI_COMM_WORLD);
    call_nonblocking(b, ring, MPI_COMM_WORLD);
  }
  Buffers mine(1);
  MPI_Request q = MPI_REQUEST_NULL;
  MPI_Bcast(mine.send.data(), kBlock, MPI_CHAR, 0, alone);
  MPI_Ialltoall(mine.send.data(), kBlock, MPI_CHAR, mine.receive.data(), kBlock, MPI_CHAR, MPI_COMM_SELF, &q), wait(q);
  call_wrongly(b);
}

// The tested requests include a message that has not been sent.
void test_in_vain(Buffers& b, int rank) {
  MPI_Request both[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int message = 0;
  MPI_Irecv(&message, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &both[0]);
  MPI_Ialltoall(b.send.data(), kBlock, MPI_CHAR, b.receive.data(), kBlock, MPI_CHAR, MPI_COMM_WORLD, &both[1]);
  usleep(5000);
  for (int i = 0; i < 3; ++i) {
    int flag = 0;
    MPI_Testall(2, both, &flag, MPI_STATUSES_IGNORE);
  }
  MPI_Send(&rank, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

// The last page of the buffer is inaccessible.
void pass_bad_buffer(const std::string& which, int rank) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t block = 32 * page;
  char* good = static_cast<char*>(mmap(nullptr, block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(good, 1, block);
  if (rank == 1) {
    mprotect(good + 31 * page, page, PROT_NONE);
    std::printf("bad address %p\n", static_cast<void*>(good + 31 * page));
    std::fflush(stdout);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Request q = MPI_REQUEST_NULL;
  MPI_Ibcast(good, static_cast<int>(block), MPI_CHAR, which == "send" ? 1 : 0, MPI_COMM_WORLD, &q);
  if (MPI_Wait(&q, MPI_STATUS_IGNORE) == MPI_SUCCESS) std::printf("rank %d: no error\n", rank);
}

void end_here(const std::string& how, int code) {
  if (how == "abort") MPI_Abort(MPI_COMM_WORLD, code);
  if (how == "signal") std::raise(code != 0 ? code : SIGKILL);
  if (how == "exit") std::exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string mode = argc > 1 ? argv[1] : "all";
  Buffers buffers(ranks);
  if (mode == "all") call_all(buffers, ranks, std::atoi(argv[2]));
  if (mode == "persistent") call_persistent(buffers, MPI_COMM_WORLD, std::atoi(argv[2]));
  for (int i = 0; mode == "tests" && i < std::atoi(argv[2]); ++i) test_in_vain(buffers, rank);
  for (int i = 0; mode == "late" && i < 10; ++i) {
    if (rank == 1) usleep(30'000);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (mode == "bad") pass_bad_buffer(argv[2], rank);
  if (mode == "end") {
    for (int i = 0; i < 3; ++i)
      MPI_Allreduce(buffers.send.data(), buffers.receive.data(), kBlock, MPI_SIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    const char* named = std::getenv("TEST_RANK");
    const int ender = named != nullptr ? std::atoi(named) : 1;
    const bool ends = rank == ender;
    int word = 0;
    if (ends) {
      for (int i = 1; i < ranks; ++i)
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // they have finished
      end_here(argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
    } else {
      MPI_Send(&word, 1, MPI_INT, ender, 0, MPI_COMM_WORLD);
    }
    sleep(30);
  }
  MPI_Finalize();
  return 0;
}
