// Collectives of every kind, with all bytes checked, while service processes are killed.
//
//   restarted MODE SECONDS [SEED [moves]]
//
// It ends after this many seconds, or when the file named by TEST_END_FILE exists.
//
// MODE is the ranks' action between a post and its wait:
//   calls     none: operations in sequence, several outstanding
//   kept      the same, but no communicator is freed with outstanding operations: native collectives of Open MPI that
//             outlive theirs end the process
//   ordered   the same, all on one communicator: all ranks agree on the first outstanding one
//   compute   they compute without MPI for some milliseconds
//   native    they block in MPI_Recv for a message that comes some milliseconds later
//   holding   one large operation of each kind is outstanding for SECONDS while the last rank has not posted its part
//
// With `moves` there are no reductions. Open MPI crashes if its own reductions outlive their communicator, so in jobs
// without offloaded reductions no communicator may be freed with one outstanding.
//
// All ranks draw collective, sizes, communicator and root from one seed. Rank 0 prints "restarted: ready" when all
// ranks work, "restarted: under way" after its first operations (holding: when its parts are outstanding), and at the
// end the number of operations. It notes operations that it has finished (progress.hpp).

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "progress.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

int rank = 0;
int size = 0;
MPI_Comm ring = MPI_COMM_NULL;  // all ranks in order: each has the previous and the next one as neighbors

enum class Kind {
  alltoall,
  alltoall_in_place,
  alltoallv,
  alltoallv_in_place,
  allgather,
  allgather_in_place,
  allgatherv,
  bcast,
  gather,
  gather_in_place,
  gatherv,
  scatter,
  scatterv,
  barrier,
  neighbor_alltoallv,
  allreduce,
  allreduce_in_place,
  reduce,
  reduce_scatter_block,
  reduce_scatter,
  scan,
  exscan
};
constexpr int kKinds = 22;
int kinds = kKinds;  // in use

[[noreturn]] void fail(const char* what, Kind kind, int count) {
  std::fprintf(stderr, "restarted: rank %d: %s, kind %d, count %d\n", rank, what, static_cast<int>(kind), count);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// The number that `from` sends `to` at `place` in this operation.
int value(std::uint64_t operation, int from, int to, int place) {
  return static_cast<int>((operation * 7919 + static_cast<unsigned>(from) * 104729 +
                           static_cast<unsigned>(to) * 1299709 + static_cast<unsigned>(place)) &
                          0x3FFFFFFF);
}

class Operation {
 public:
  Operation(MPI_Comm comm, Kind kind, int count, int root, std::uint64_t number)
      : kind_(kind), count_(count), root_(root), number_(number) {
    const auto peers = static_cast<std::size_t>(size);
    counts_.resize(peers);
    places_.resize(peers);
    int next = 0;
    for (int peer = 0; peer < size; ++peer) {
      counts_[static_cast<std::size_t>(peer)] = count_with(peer);
      places_[static_cast<std::size_t>(peer)] = next;
      next += count_with(peer);
    }
    const std::size_t all = std::max(static_cast<std::size_t>(next), static_cast<std::size_t>(count_) * peers);
    receive_.assign(all, -1);
    post(comm, all);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void wait() {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    check();
  }

 private:
  // v-forms: equal at both ends of a pair, sometimes 0. Not in place: collectives are native at times, and Open MPI 4.1
  // has an error there (four ranks, blocks of 80 KB).
  [[nodiscard]] int count_with(int peer) const {
    switch (kind_) {
      case Kind::alltoallv: return (rank + peer) % 5 == 1 ? 0 : count_ + (rank + peer) % 3;
      case Kind::alltoallv_in_place: return count_ + (rank + peer) % 3;
      case Kind::gatherv:
      case Kind::scatterv:
      case Kind::reduce_scatter:
      case Kind::allgatherv: return count_ + peer % 3;
      default: return count_;
    }
  }
  [[nodiscard]] bool is_to_all() const { return kind_ <= Kind::alltoallv_in_place; }
  [[nodiscard]] bool reduces() const { return kind_ >= Kind::allreduce; }
  [[nodiscard]] bool gathers_at_root() const { return kind_ >= Kind::gather && kind_ <= Kind::gatherv; }
  [[nodiscard]] bool scatters() const { return kind_ == Kind::scatter || kind_ == Kind::scatterv; }
  [[nodiscard]] int receiver() const { return is_to_all() || scatters() ? rank : 0; }

  static void fill(std::vector<int>& buffer, int at, int count, std::uint64_t number, int to) {
    for (int i = 0; i < count; ++i) buffer[static_cast<std::size_t>(at + i)] = value(number, rank, to, i);
  }

  // At the places of the ring's neighbors.
  [[nodiscard]] static std::array<int, 2> neighbors() { return {(rank + size - 1) % size, (rank + 1) % size}; }

  void post(MPI_Comm comm, std::size_t all) {
    const int* counts = counts_.data();
    const int* places = places_.data();
    switch (kind_) {
      case Kind::alltoall:
      case Kind::alltoallv: {
        send_.assign(all, -2);
        for (int to = 0; to < size; ++to) fill(send_, places[to], counts[to], number_, to);
        if (kind_ == Kind::alltoall) {
          MPI_Ialltoall(send_.data(), count_, MPI_INT, receive_.data(), count_, MPI_INT, comm, &request_);
        } else {
          MPI_Ialltoallv(send_.data(), counts, places, MPI_INT, receive_.data(), counts, places, MPI_INT, comm,
                         &request_);
        }
        return;
      }
      case Kind::alltoall_in_place:
      case Kind::alltoallv_in_place: {
        for (int to = 0; to < size; ++to) fill(receive_, places[to], counts[to], number_, to);
        if (kind_ == Kind::alltoall_in_place) {
          MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_INT, receive_.data(), count_, MPI_INT, comm, &request_);
        } else {
          MPI_Ialltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, receive_.data(), counts, places, MPI_INT, comm,
                         &request_);
        }
        return;
      }
      case Kind::allgather:
        send_.assign(static_cast<std::size_t>(count_), -2);
        fill(send_, 0, count_, number_, 0);
        MPI_Iallgather(send_.data(), count_, MPI_INT, receive_.data(), count_, MPI_INT, comm, &request_);
        return;
      case Kind::allgather_in_place:
        fill(receive_, rank * count_, count_, number_, 0);
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, receive_.data(), count_, MPI_INT, comm, &request_);
        return;
      case Kind::allgatherv:
        send_.assign(static_cast<std::size_t>(count_with(rank)), -2);
        fill(send_, 0, count_with(rank), number_, 0);
        MPI_Iallgatherv(send_.data(), count_with(rank), MPI_INT, receive_.data(), counts, places, MPI_INT, comm,
                        &request_);
        return;
      case Kind::bcast:
        if (rank == root_) fill(receive_, 0, count_, number_, 0);
        MPI_Ibcast(receive_.data(), count_, MPI_INT, root_, comm, &request_);
        return;
      case Kind::gather:
      case Kind::gather_in_place: {
        const bool in_place = kind_ == Kind::gather_in_place && rank == root_;
        send_.assign(static_cast<std::size_t>(count_), -2);
        fill(in_place ? receive_ : send_, in_place ? places[rank] : 0, count_, number_, 0);
        MPI_Igather(in_place ? MPI_IN_PLACE : send_.data(), count_, MPI_INT, receive_.data(), count_, MPI_INT, root_,
                    comm, &request_);
        return;
      }
      case Kind::gatherv:
        send_.assign(static_cast<std::size_t>(count_with(rank)), -2);
        fill(send_, 0, count_with(rank), number_, 0);
        MPI_Igatherv(send_.data(), count_with(rank), MPI_INT, receive_.data(), counts, places, MPI_INT, root_, comm,
                     &request_);
        return;
      case Kind::scatter:
      case Kind::scatterv:
        send_.assign(all, -2);
        for (int to = 0; rank == root_ && to < size; ++to) fill(send_, places[to], counts[to], number_, to);
        if (kind_ == Kind::scatter) {
          MPI_Iscatter(send_.data(), count_, MPI_INT, receive_.data(), count_, MPI_INT, root_, comm, &request_);
        } else {
          MPI_Iscatterv(send_.data(), counts, places, MPI_INT, receive_.data(), count_with(rank), MPI_INT, root_, comm,
                        &request_);
        }
        return;
      case Kind::barrier: MPI_Ibarrier(comm, &request_); return;
      case Kind::neighbor_alltoallv:
        counts_ = {count_, count_};
        places_ = {0, count_};
        send_.assign(2 * static_cast<std::size_t>(count_), -2);
        receive_.assign(send_.size(), -1);
        for (const std::size_t i : {0, 1}) fill(send_, places_[i], count_, number_, neighbors()[i]);
        MPI_Ineighbor_alltoallv(send_.data(), counts_.data(), places_.data(), MPI_INT, receive_.data(), counts_.data(),
                                places_.data(), MPI_INT, comm, &request_);
        return;
      case Kind::allreduce:
        contribute(send_, count_);
        MPI_Iallreduce(send_.data(), receive_.data(), count_, MPI_INT, MPI_SUM, comm, &request_);
        return;
      case Kind::allreduce_in_place:
        contribute(receive_, count_);
        MPI_Iallreduce(MPI_IN_PLACE, receive_.data(), count_, MPI_INT, MPI_SUM, comm, &request_);
        return;
      case Kind::reduce:
        contribute(send_, count_);
        MPI_Ireduce(send_.data(), receive_.data(), count_, MPI_INT, MPI_SUM, root_, comm, &request_);
        return;
      case Kind::reduce_scatter_block:
        contribute(send_, count_ * size);
        MPI_Ireduce_scatter_block(send_.data(), receive_.data(), count_, MPI_INT, MPI_SUM, comm, &request_);
        return;
      case Kind::reduce_scatter:
        contribute(send_, places[size - 1] + counts[size - 1]);
        MPI_Ireduce_scatter(send_.data(), receive_.data(), counts, MPI_INT, MPI_SUM, comm, &request_);
        return;
      case Kind::scan:
        contribute(send_, count_);
        MPI_Iscan(send_.data(), receive_.data(), count_, MPI_INT, MPI_SUM, comm, &request_);
        return;
      case Kind::exscan:
        contribute(send_, count_);
        MPI_Iexscan(send_.data(), receive_.data(), count_, MPI_INT, MPI_SUM, comm, &request_);
        return;
    }
  }

  // So small that no sum overflows an int.
  [[nodiscard]] int addend(int from, int place) const { return value(number_, from, 0, place) & 0xFFFFFF; }
  void contribute(std::vector<int>& vector, int count) const {
    vector.assign(static_cast<std::size_t>(count), 0);
    for (int i = 0; i < count; ++i) vector[static_cast<std::size_t>(i)] = addend(rank, i);
  }
  void check_sum() const {
    if (kind_ == Kind::reduce && rank != root_) return;
    const bool by_parts = kind_ == Kind::reduce_scatter_block || kind_ == Kind::reduce_scatter;
    const int first = by_parts ? places_[static_cast<std::size_t>(rank)] : 0;
    const int before = kind_ == Kind::exscan ? rank : kind_ == Kind::scan ? rank + 1 : size;
    if (before == 0) return;
    for (int i = 0; i < count_with(rank); ++i) {
      int sum = 0;
      for (int from = 0; from < before; ++from) sum += addend(from, first + i);
      if (receive_[static_cast<std::size_t>(i)] != sum) fail("WRONG DATA", kind_, count_);
    }
  }

  void check_neighbors() const {
    for (std::size_t i = 0; i < receive_.size(); ++i) {
      const std::size_t place = i / static_cast<std::size_t>(count_);
      const int at = static_cast<int>(i % static_cast<std::size_t>(count_));
      if (receive_[i] != value(number_, neighbors()[place], rank, at)) fail("WRONG DATA", kind_, count_);
    }
  }

  void check() const {
    if (reduces()) return check_sum();
    if (kind_ == Kind::neighbor_alltoallv) return check_neighbors();
    if (kind_ == Kind::barrier || (gathers_at_root() && rank != root_)) return;
    const bool from_root = kind_ == Kind::bcast || scatters();
    const int first = from_root ? root_ : 0;
    const int last = from_root ? root_ + 1 : size;
    for (int from = first; from < last; ++from) {
      const int at = from_root ? 0 : places_[static_cast<std::size_t>(from)];
      for (int i = 0; i < counts_[static_cast<std::size_t>(scatters() ? rank : from)]; ++i) {
        if (receive_[static_cast<std::size_t>(at + i)] != value(number_, from, receiver(), i))
          fail("WRONG DATA", kind_, count_);
      }
    }
  }

  Kind kind_;
  int count_;
  int root_;
  std::uint64_t number_;
  std::vector<int> counts_, places_, send_, receive_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

void compute_for(std::chrono::milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  volatile double number = 1;
  while (Clock::now() < end) number = number * 1.0000001 + 1e-9;
}

// A message from the rank before, which computes for a while before it sends.
void sit_in_receive() {
  constexpr int kTag = 3;
  int message = 0;
  if (rank == 0) compute_for(std::chrono::milliseconds(5));
  if (rank != 0) MPI_Recv(&message, 1, MPI_INT, rank - 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank + 1 < size) MPI_Send(&message, 1, MPI_INT, rank + 1, kTag, MPI_COMM_WORLD);
}

bool told_to_end() {
  static const char* const file = std::getenv("TEST_END_FILE");
  return file != nullptr && access(file, F_OK) == 0;
}

// All ranks do the same number of rounds: rank 0 decides when to stop.
bool go_on(Clock::time_point end) {
  int more = Clock::now() < end && !told_to_end() ? 1 : 0;
  MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return more != 0;
}

void say_under_way() {
  if (rank != 0) return;
  std::printf("restarted: under way\n");
  std::fflush(stdout);
}

int some_count(Random& random) {
  constexpr std::array<int, 6> kCounts{1, 60, 1'000, 20'000, 100'000, 300'000};
  return kCounts[random() % kCounts.size()];
}

std::uint64_t hold(int seconds) {
  std::uint64_t number = 0;
  std::deque<std::unique_ptr<Operation>> outstanding;
  const auto post = [&](int count) {
    for (int kind = 0; kind < kinds; ++kind) {
      outstanding.push_back(std::make_unique<Operation>(ring, static_cast<Kind>(kind), count, 0, ++number));
    }
  };
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  while (rank == size - 1 && Clock::now() < end && !told_to_end()) usleep(10'000);
  post(4);
  post(100'000);
  say_under_way();
  for (const auto& operation : outstanding) operation->wait();
  return number;
}

std::uint64_t go(const std::string& mode, int seconds, Random random) {
  constexpr std::size_t kMostOutstanding = 6;
  constexpr std::uint64_t kOfARound = 12;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  std::uint64_t number = 0;
  MPI_Comm second = MPI_COMM_NULL;
  std::deque<std::unique_ptr<Operation>> outstanding;
  do {
    if (second == MPI_COMM_NULL) MPI_Comm_dup(ring, &second);
    for (std::uint64_t i = 0; i < kOfARound; ++i) {
      const auto kind = static_cast<Kind>(random() % static_cast<unsigned>(kinds));
      const MPI_Comm comm = random() % 3 == 0 && mode != "ordered" ? second : ring;
      const int count = some_count(random);
      const int root = static_cast<int>(random() % static_cast<unsigned>(size));
      outstanding.push_back(std::make_unique<Operation>(comm, kind, count, root, ++number));
      if (mode == "compute") compute_for(std::chrono::milliseconds(2));
      if (mode == "native") sit_in_receive();
      if (outstanding.size() == kMostOutstanding) {
        outstanding.front()->wait();
        outstanding.pop_front();
        if (rank == 0) note_progress();
      }
    }
    const bool frees = random() % 4 == 0;
    if (frees && mode != "kept") MPI_Comm_free(&second);  // with operations on it outstanding
    for (const auto& operation : outstanding) operation->wait();
    outstanding.clear();
    if (number == kOfARound) say_under_way();
    if (frees && second != MPI_COMM_NULL) MPI_Comm_free(&second);
  } while (go_on(end));
  if (second != MPI_COMM_NULL) MPI_Comm_free(&second);
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string mode = argc > 1 ? argv[1] : "calls";
  const int seconds = argc > 2 ? std::atoi(argv[2]) : 2;
  const auto seed = static_cast<std::uint64_t>(argc > 3 ? std::atoll(argv[3]) : 1);
  if (argc > 4 && std::string(argv[4]) == "moves") kinds = static_cast<int>(Kind::allreduce);
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
  Operation(ring, Kind::alltoall, 1000, 0, 0).wait();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("restarted: ready\n");
  std::fflush(stdout);
  const std::uint64_t operations = mode == "holding" ? hold(seconds) : go(mode, seconds, Random(seed));
  MPI_Comm_free(&ring);
  if (rank == 0) std::printf("restarted: %llu operations\n", static_cast<unsigned long long>(operations));
  MPI_Finalize();
  return 0;
}
