// No rank leaves a barrier before all have arrived, in any form. The ranks share memory: each counts its barriers there
// when it arrives, and checks the others' counts when it leaves.
//
//   barriers ROUNDS [SEED]

#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "persistent_calls.hpp"

namespace {

int rank = 0;
int size = 0;
std::atomic<int>* came = nullptr;  // by rank in MPI_COMM_WORLD

void come(int barriers) {
  came[rank].store(barriers, std::memory_order_release);
}

void check(const std::vector<int>& members, int barriers, const char* form) {
  for (const int member : members) {
    const int count = came[member].load(std::memory_order_acquire);
    if (count >= barriers) continue;
    std::fprintf(stderr, "barriers: rank %d left %s number %d when rank %d had come to %d\n", rank, form, barriers,
                 member, count);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

struct Communicator {
  MPI_Comm comm;
  std::vector<int> members;  // ranks of MPI_COMM_WORLD
  MPI_Request persistent = MPI_REQUEST_NULL;
};

Communicator make(int color, int key) {
  Communicator made{};
  MPI_Comm_split(MPI_COMM_WORLD, color, key, &made.comm);
  int members = 0;
  MPI_Comm_size(made.comm, &members);
  made.members.resize(static_cast<std::size_t>(members));
  MPI_Allgather(&rank, 1, MPI_INT, made.members.data(), 1, MPI_INT, made.comm);
  // MPICH 4.0 returns finished persistent requests of a group of one again.
  if (persistent::calls().barrier != nullptr && members > 1) {
    persistent::calls().barrier(made.comm, MPI_INFO_NULL, &made.persistent);
  }
  return made;
}

void wait(MPI_Request* request, bool by_test) {
  int done = by_test ? 0 : 1;
  if (!by_test) MPI_Wait(request, MPI_STATUS_IGNORE);
  while (done == 0) {
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done == 0) usleep(50);
  }
}

void meet(Communicator& on, int form, int barriers) {
  MPI_Request request = MPI_REQUEST_NULL;
  come(barriers);
  if (form == 0) {
    MPI_Barrier(on.comm);
    return check(on.members, barriers, "MPI_Barrier");
  }
  if (form == 1 && on.persistent != MPI_REQUEST_NULL) {
    MPI_Start(&on.persistent);
    wait(&on.persistent, barriers % 3 == 0);
    return check(on.members, barriers, "a start of MPI_Barrier_init");
  }
  MPI_Ibarrier(on.comm, &request);
  wait(&request, barriers % 2 == 0);
  check(on.members, barriers, "MPI_Ibarrier");
}

// Many at once, which end in any order.
void meet_many(Communicator& on, int barriers) {
  std::vector<MPI_Request> requests(20, MPI_REQUEST_NULL);
  come(barriers);
  for (MPI_Request& request : requests) MPI_Ibarrier(on.comm, &request);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  check(on.members, barriers, "several MPI_Ibarrier");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  std::mt19937 alike(static_cast<unsigned>(argc > 2 ? std::atoi(argv[2]) : 1));
  std::mt19937 own(static_cast<unsigned>(rank + 1));
  MPI_Win window = MPI_WIN_NULL;
  void* mine = nullptr;
  const MPI_Aint bytes = rank == 0 ? static_cast<MPI_Aint>(sizeof(std::atomic<int>)) * size : 0;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
  MPI_Aint shared = 0;
  int unit = 0;
  MPI_Win_shared_query(window, 0, &shared, &unit, &came);
  come(0);
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<Communicator> all;
  all.push_back(make(0, rank));
  all.push_back(make(0, -rank));
  all.push_back(make(rank % 2, rank));
  for (int round = 1; round <= rounds; ++round) {
    Communicator& on = all[alike() % all.size()];
    const int form = static_cast<int>(alike() % 4);
    if (own() % 4 == 0) usleep(static_cast<unsigned>(own() % 300));
    form == 3 ? meet_many(on, round) : meet(on, form, round);
  }
  for (Communicator& each : all) {
    if (each.persistent != MPI_REQUEST_NULL) MPI_Request_free(&each.persistent);
    MPI_Comm_free(&each.comm);
  }
  MPI_Win_free(&window);
  if (rank == 0) std::printf("barriers: nobody left early\n");
  MPI_Finalize();
  return 0;
}
