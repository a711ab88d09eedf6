// Counts how often a rank yields during a post: once if it shares its core, or its service process does, so that the
// others can post as well; else never.
//
//   yields CPU        all ranks run on this one
//   yields CPU last   the last rank posts when the service process has taken the posts of all others
//   yields CPU ranks  each rank posts when those before it have posted; ranks do the operation by themselves

#include <mpi.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

int yields = 0;

class Exchange {
 public:
  Exchange(MPI_Comm comm, int rank, int ranks)
      : comm_(comm), sent_(static_cast<std::size_t>(ranks), rank), received_(static_cast<std::size_t>(ranks), -1) {}

  // Returns how often it yields.
  int post() {
    const int before = yields;
    MPI_Ialltoall(sent_.data(), 1, MPI_INT, received_.data(), 1, MPI_INT, comm_, &request_);
    return yields - before;
  }
  void wait() {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    for (std::size_t i = 0; i < received_.size(); ++i) {
      if (received_[i] != static_cast<int>(i)) MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

 private:
  MPI_Comm comm_;
  std::vector<int> sent_;
  std::vector<int> received_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// Service processes take the posts of a rank in order, and tell a rank of the last operation only that awaits it.
int post_last_on_last_rank(int rank, int ranks) {
  const int last = ranks - 1;
  MPI_Comm others = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == last ? 1 : 0, rank, &others);
  Exchange first(MPI_COMM_WORLD, rank, ranks);
  int posting = 0;
  if (rank != last) {
    posting = first.post();
    Exchange second(others, rank, last);
    second.post();
    second.wait();
    if (rank == 0) MPI_Send(nullptr, 0, MPI_INT, last, 0, MPI_COMM_WORLD);
  } else {
    MPI_Recv(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    posting = first.post();
  }
  first.wait();
  MPI_Comm_free(&others);
  return posting;
}

// The ranks share memory from then on.
void meet() {
  for (int i = 0; i < 20; ++i) MPI_Barrier(MPI_COMM_WORLD);
}

int post_one_by_one(int rank, int ranks) {
  meet();
  Exchange only(MPI_COMM_WORLD, rank, ranks);
  if (rank > 0) MPI_Recv(nullptr, 0, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const int posting = only.post();
  if (rank + 1 < ranks) MPI_Send(nullptr, 0, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
  only.wait();
  return posting;
}

int post_in_any_order(int rank, int ranks) {
  Exchange only(MPI_COMM_WORLD, rank, ranks);
  const int posting = only.post();
  only.wait();
  return posting;
}

int post(const std::string& order, int rank, int ranks) {
  if (order == "last") return post_last_on_last_rank(rank, ranks);
  return order == "ranks" ? post_one_by_one(rank, ranks) : post_in_any_order(rank, ranks);
}

}  // namespace

// Found before the C library's, also by the libraries.
extern "C" __attribute__((visibility("default"))) int sched_yield() {
  ++yields;
  return static_cast<int>(syscall(SYS_sched_yield));
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: yields CPU [last|ranks]\n");
    return 2;
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(std::atoi(argv[1]), &cpus);
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
    std::perror("yields: sched_setaffinity");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int posting = post(argc == 3 ? argv[2] : "", rank, ranks);
  std::printf("rank %d yields %d times\n", rank, posting);
  MPI_Finalize();
  return 0;
}
