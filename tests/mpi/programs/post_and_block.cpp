// Ranks post many operations and then block in native calls until others have completed theirs. Tests that operations
// without a slot reach the service process meanwhile.
//
//   post_and_block OPERATIONS COMMUNICATORS
//
// Half of the ranks post first, so that none of their operations can end before they block. They block in a barrier and
// then in a receive from a rank of the other half, which posts, in another order of communicators, and completes all
// its operations. Then the halves are exchanged.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int value(int from, int to, int communicator, int number) {
  return ((from * 64 + to) * 8 + communicator) * 16384 + number;
}

class Operations {
 public:
  Operations(int count, int communicators) : communicators_(static_cast<std::size_t>(communicators)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    each_ = count / communicators;
    rest_ = count - each_ * communicators;
    for (MPI_Comm& communicator : communicators_) MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    const std::size_t blocks = static_cast<std::size_t>(count) * static_cast<std::size_t>(size_);
    send_.resize(blocks);
    receive_.assign(blocks, -1);
    requests_.assign(static_cast<std::size_t>(count), MPI_REQUEST_NULL);
  }
  ~Operations() {
    for (MPI_Comm& communicator : communicators_) MPI_Comm_free(&communicator);
  }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  void post() {
    const int communicators = static_cast<int>(communicators_.size());
    if (rank_ % 2 == 0) {
      for (int number = 0; number < of(0); ++number) {
        for (int i = 0; i < communicators; ++i) {
          if (number < of(i)) post(i, number);
        }
      }
    } else {
      for (int i = communicators - 1; i >= 0; --i) {
        for (int number = 0; number < of(i); ++number) post(i, number);
      }
    }
  }

  // Returns the number of wrong blocks.
  int complete() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    int wrong = 0;
    for (int i = 0; i < static_cast<int>(communicators_.size()); ++i) {
      for (int number = 0; number < of(i); ++number) wrong += wrong_in(i, number);
    }
    return wrong;
  }

 private:
  [[nodiscard]] int of(int communicator) const { return each_ + (communicator < rest_ ? 1 : 0); }
  [[nodiscard]] std::size_t index(int communicator, int number) const {
    return static_cast<std::size_t>(number) * communicators_.size() + static_cast<std::size_t>(communicator);
  }
  [[nodiscard]] static bool is_broadcast(int number) { return number % 3 == 2; }

  void post(int communicator, int number) {
    const std::size_t at = index(communicator, number);
    int* send = &send_[at * static_cast<std::size_t>(size_)];
    int* receive = &receive_[at * static_cast<std::size_t>(size_)];
    const MPI_Comm on = communicators_[static_cast<std::size_t>(communicator)];
    if (is_broadcast(number)) {
      const int root = number % size_;
      if (rank_ == root) receive[0] = value(root, 0, communicator, number);
      MPI_Ibcast(receive, 1, MPI_INT, root, on, &requests_[at]);
      return;
    }
    for (int to = 0; to < size_; ++to) send[to] = value(rank_, to, communicator, number);
    MPI_Ialltoall(send, 1, MPI_INT, receive, 1, MPI_INT, on, &requests_[at]);
  }

  [[nodiscard]] int wrong_in(int communicator, int number) const {
    const int* receive = &receive_[index(communicator, number) * static_cast<std::size_t>(size_)];
    if (is_broadcast(number)) return receive[0] != value(number % size_, 0, communicator, number);
    int wrong = 0;
    for (int from = 0; from < size_; ++from) {
      if (receive[from] != value(from, rank_, communicator, number)) ++wrong;
    }
    return wrong;
  }

  int rank_ = 0;
  int size_ = 0;
  int each_ = 0;
  int rest_ = 0;
  std::vector<MPI_Comm> communicators_;
  std::vector<int> send_, receive_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = argc > 1 ? std::atoi(argv[1]) : 10000;
  const int communicators = argc > 2 ? std::atoi(argv[2]) : 1;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int wrong = 0;
  for (int first = 0; first < 2; ++first) {
    Operations operations(count, communicators);
    const int partner = (rank ^ 1) < size ? rank ^ 1 : MPI_PROC_NULL;
    int token = 0;
    if (rank % 2 == first) {
      operations.post();
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Recv(&token, 1, MPI_INT, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      wrong += operations.complete();
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
      operations.post();
      wrong += operations.complete();
      MPI_Send(&token, 1, MPI_INT, partner, 0, MPI_COMM_WORLD);
    }
  }
  if (wrong == 0) {
    std::printf("post_and_block: rank %d: %d operations went on in blocking calls\n", rank, count);
  } else {
    std::printf("post_and_block: rank %d: %d WRONG\n", rank, wrong);
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
