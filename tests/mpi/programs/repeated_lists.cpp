// Calls with lists of counts and places, over and over: the program changes the lists, the buffers, the types and the
// root between calls, or nothing. Lists stay in the same memory, so their addresses tell nothing. Each block has its
// own bytes; bytes between blocks must stay. A rank without use for a list passes a bad address.
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace {

constexpr int kMostRanks = 8;
constexpr int kMostCount = 40;  // elements of a block
constexpr int kGap = 3;         // elements between blocks
constexpr int kBufferBytes = kMostRanks * (kMostCount + kGap) * 8;
constexpr std::uint8_t kUntouched = 0xEE;

int rank, ranks;

// The bytes that a call of this number sends from one rank to another.
std::uint8_t byte_of(int call, int from, int to, int at) {
  return static_cast<std::uint8_t>(call * 131 + from * 31 + to * 17 + at);
}

// Alike on all ranks: counts by sender and receiver.
struct Plan {
  std::array<std::array<int, kMostRanks>, kMostRanks> counts{};
  bool descending = false;  // the last rank's block is first
};

Plan plan_of(std::mt19937& random) {
  Plan plan;
  for (auto& row : plan.counts) {
    for (int& count : row) count = random() % 4 == 0 ? 0 : static_cast<int>(random() % kMostCount);
  }
  plan.descending = random() % 2 == 0;
  return plan;
}

// One side's arguments. They stay where they are.
struct Side {
  std::array<int, kMostRanks> counts{};
  std::array<int, kMostRanks> places{};  // in elements
  std::array<std::vector<std::uint8_t>, 2> buffers{std::vector<std::uint8_t>(kBufferBytes),
                                                   std::vector<std::uint8_t>(kBufferBytes)};
};

Side sent, received;

void lay_out(Side& side, bool descending) {
  int at = 0;
  for (int i = 0; i < ranks; ++i) {
    const auto member = static_cast<std::size_t>(descending ? ranks - 1 - i : i);
    side.places[member] = at;
    at += side.counts[member] + kGap;
  }
}

struct Call {
  int number, type_bytes, root;
  MPI_Datatype type;
  std::uint8_t* from;
  std::uint8_t* into;
};

[[noreturn]] void fail(const Call& call, const char* name, int from, int at) {
  std::printf("rank %d: %s, call %d: byte %d of the block from %d is wrong\n", rank, name, call.number, at, from);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// The block for or of a member; alone: at the start.
std::uint8_t* block(std::uint8_t* buffer, const Side& side, const Call& call, int member, bool alone) {
  return alone ? buffer : buffer + side.places[static_cast<std::size_t>(member)] * call.type_bytes;
}

void fill(const Call& call, const Side& side, int member, bool alone) {
  std::uint8_t* to = block(call.from, side, call, member, alone);
  const int receiver = alone ? 0 : member;  // a block for all has no receiver
  for (int at = 0; at < side.counts[static_cast<std::size_t>(member)] * call.type_bytes; ++at) {
    to[at] = byte_of(call.number, rank, receiver, at);
  }
}

void check(const Call& call, const char* name, const Side& side, int member, int receiver, bool alone) {
  std::uint8_t* found = block(call.into, side, call, member, alone);
  const int bytes = side.counts[static_cast<std::size_t>(member)] * call.type_bytes;
  for (int at = 0; at < bytes; ++at) {
    if (found[at] != byte_of(call.number, member, receiver, at)) fail(call, name, member, at);
    found[at] = kUntouched;
  }
}

// After all blocks have been checked.
void check_gaps(const Call& call, const char* name) {
  for (int at = 0; at < kBufferBytes; ++at) {
    if (call.into[at] != kUntouched) fail(call, name, -1, at);
  }
}

std::size_t index(int member) {
  return static_cast<std::size_t>(member);
}

void alltoallv(const Plan& plan, const Call& call, MPI_Comm comm, bool neighbors) {
  for (int i = 0; i < ranks; ++i) sent.counts[index(i)] = plan.counts[index(rank)][index(i)];
  for (int i = 0; i < ranks; ++i) received.counts[index(i)] = plan.counts[index(i)][index(rank)];
  lay_out(sent, plan.descending);
  lay_out(received, !plan.descending);
  for (int i = 0; i < ranks; ++i) fill(call, sent, i, false);
  const auto run = neighbors ? &MPI_Neighbor_alltoallv : &MPI_Alltoallv;
  run(call.from, sent.counts.data(), sent.places.data(), call.type, call.into, received.counts.data(),
      received.places.data(), call.type, comm);
  for (int i = 0; i < ranks; ++i) check(call, neighbors ? "neighbor_alltoallv" : "alltoallv", received, i, rank, false);
}

void allgatherv(const Plan& plan, const Call& call, MPI_Comm comm, bool neighbors) {
  for (int i = 0; i < ranks; ++i) received.counts[index(i)] = plan.counts[index(i)][0];
  sent.counts[0] = plan.counts[index(rank)][0];
  lay_out(received, plan.descending);
  fill(call, sent, 0, true);
  const auto run = neighbors ? &MPI_Neighbor_allgatherv : &MPI_Allgatherv;
  run(call.from, sent.counts[0], call.type, call.into, received.counts.data(), received.places.data(), call.type, comm);
  for (int i = 0; i < ranks; ++i) check(call, neighbors ? "neighbor_allgatherv" : "allgatherv", received, i, 0, false);
}

int* if_root(const Call& call, std::array<int, kMostRanks>& list) {
  return rank == call.root ? list.data() : reinterpret_cast<int*>(8);
}

void gatherv(const Plan& plan, const Call& call, MPI_Comm comm) {
  for (int i = 0; i < ranks; ++i) received.counts[index(i)] = plan.counts[index(i)][0];
  sent.counts[0] = plan.counts[index(rank)][0];
  lay_out(received, plan.descending);
  fill(call, sent, 0, true);
  MPI_Gatherv(call.from, sent.counts[0], call.type, call.into, if_root(call, received.counts),
              if_root(call, received.places), call.type, call.root, comm);
  for (int i = 0; i < ranks && rank == call.root; ++i) check(call, "gatherv", received, i, 0, false);
}

void scatterv(const Plan& plan, const Call& call, MPI_Comm comm) {
  for (int i = 0; i < ranks; ++i) sent.counts[index(i)] = plan.counts[0][index(i)];
  received.counts[index(call.root)] = plan.counts[0][index(rank)];
  lay_out(sent, plan.descending);
  for (int i = 0; i < ranks && rank == call.root; ++i) fill(call, sent, i, false);
  MPI_Scatterv(call.from, if_root(call, sent.counts), if_root(call, sent.places), call.type, call.into,
               received.counts[index(call.root)], call.type, call.root, comm);
  check(call, "scatterv", received, call.root, rank, true);
}

// The send lists mean nothing in place. The program changes them, then uses them, and their memory may be gone.
void alltoallv_in_place(int number) {
  static std::array<int, kMostRanks> places{};
  Call call{number, 1, 0, MPI_BYTE, sent.buffers[0].data(), received.buffers[0].data()};
  for (int i = 0; i < ranks; ++i) sent.counts[index(i)] = received.counts[index(i)] = 8;
  lay_out(received, false);
  for (int shift = 0; shift < 3; ++shift) {
    for (int i = 0; i < ranks; ++i) {
      std::fill_n(block(call.into, received, call, i, false), 8, byte_of(number, rank, i, 0));
    }
    MPI_Alltoallv(MPI_IN_PLACE, sent.counts.data(), places.data(), MPI_BYTE, call.into, received.counts.data(),
                  received.places.data(), MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; ++i) {
      if (block(call.into, received, call, i, false)[7] != byte_of(number, i, rank, 0)) fail(call, "in place", i, 7);
    }
    for (int i = 0; i < ranks; ++i) places[index(i)] = i * 16 + shift;
    std::swap(sent.places, places);
    for (int i = 0; i < ranks; ++i) fill(call, sent, i, false);
    std::swap(sent.places, places);
    MPI_Alltoallv(call.from, sent.counts.data(), places.data(), MPI_BYTE, call.into, received.counts.data(),
                  received.places.data(), MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; ++i) check(call, "alltoallv after one in place", received, i, rank, false);
  }
  check_gaps(call, "alltoallv after one in place");
}

void alltoallv_in_place_without_lists() {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int* const counts = static_cast<int*>(page);
  int* const places = counts + kMostRanks;
  for (int i = 0; i < ranks; ++i) counts[i] = received.counts[index(i)] = 8;
  for (int i = 0; i < ranks; ++i) places[i] = 8 * i;
  lay_out(received, false);
  const auto run = [&](const void* from) {
    MPI_Alltoallv(from, counts, places, MPI_BYTE, received.buffers[0].data(), received.counts.data(),
                  received.places.data(), MPI_BYTE, MPI_COMM_WORLD);
  };
  for (int i = 0; i < 3; ++i) run(sent.buffers[0].data());
  munmap(page, 4096);
  run(MPI_IN_PLACE);
  std::fill(received.buffers[0].begin(), received.buffers[0].end(), kUntouched);
}

// Often has the handle of the last one that was freed.
MPI_Datatype own_type() {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(4, MPI_BYTE, &made);
  MPI_Type_commit(&made);
  return made;
}

MPI_Comm all_neighbors() {
  std::vector<int> all(index(ranks));
  for (int i = 0; i < ranks; ++i) all[index(i)] = i;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, ranks, all.data(), MPI_UNWEIGHTED, ranks, all.data(), MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &made);
  return made;
}

void run(int number, const Plan& plan, std::mt19937& random, MPI_Comm graph) {
  const auto pick = random() % 3;
  MPI_Datatype type = pick == 0 ? MPI_BYTE : pick == 1 ? MPI_DOUBLE : own_type();
  const int type_bytes = pick == 0 ? 1 : pick == 1 ? 8 : 4;
  const std::size_t half = random() % 2;
  const Call call{number,
                  type_bytes,
                  static_cast<int>(random() % index(ranks)),
                  type,
                  sent.buffers[half].data(),
                  received.buffers[half].data()};
  alltoallv(plan, call, MPI_COMM_WORLD, false);
  check_gaps(call, "alltoallv");
  allgatherv(plan, call, MPI_COMM_WORLD, false);
  check_gaps(call, "allgatherv");
  gatherv(plan, call, MPI_COMM_WORLD);
  check_gaps(call, "gatherv");
  scatterv(plan, call, MPI_COMM_WORLD);
  check_gaps(call, "scatterv");
  alltoallv(plan, call, graph, true);
  check_gaps(call, "neighbor_alltoallv");
  allgatherv(plan, call, graph, true);
  check_gaps(call, "neighbor_allgatherv");
  if (pick == 2) MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const MPI_Comm graph = all_neighbors();
  std::mt19937 random(argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1);  // the same numbers on all ranks
  for (auto& buffer : received.buffers) std::fill(buffer.begin(), buffer.end(), kUntouched);
  for (int number = 0; number < 400;) {
    const Plan plan = plan_of(random);
    const std::mt19937 same = random;  // for equal types, buffers and roots
    const bool changes = random() % 3 == 0;
    for (auto left = 1 + random() % 6; left != 0; --left) {
      std::mt19937 again = same;
      run(number++, plan, changes ? random : again, graph);
    }
  }
  for (int number = 0; number < 30; ++number) alltoallv_in_place(number);
  for (int i = 0; i < 5; ++i) alltoallv_in_place_without_lists();
  MPI_Comm freed = graph;
  MPI_Comm_free(&freed);
  if (rank == 0) std::printf("all blocks are right\n");
  MPI_Finalize();
  return 0;
}
