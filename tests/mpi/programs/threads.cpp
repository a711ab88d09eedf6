// Stress for MPI_THREAD_MULTIPLE. Several threads of each rank at once: (1) post and complete on their own
// communicators; (2) complete another thread's posts; (3) wait for an operation that the other rank enters only after a
// message from another thread of this rank; (4) block in a native MPI_Recv while others wait.
//
//   threads [ROUNDS]      default 200; two ranks or more

#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int own_threads = 2;  // threads of kind (1)
constexpr int watchdog_s = 120;
int world_rank = 0;
int world_size = 0;

[[noreturn]] void fail(const char* where, int got, int wanted) {
  std::fprintf(stderr, "threads: rank %d, %s: got %d instead of %d\n", world_rank, where, got, wanted);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// One all-to-all whose contents identify the sender and the round.
class Exchange {
 public:
  Exchange(MPI_Comm communicator, int block, int round) : block_(block), round_(round) {
    const auto elements = static_cast<std::size_t>(block * world_size);
    send_.assign(elements, world_rank * 1'000'000 + round);
    receive_.assign(elements, -1);
    MPI_Ialltoall(send_.data(), block, MPI_INT, receive_.data(), block, MPI_INT, communicator, &request);
  }
  void check(const char* where) const {
    for (int peer = 0; peer < world_size; ++peer) {
      for (int i = 0; i < block_; ++i) {
        const int got = receive_[static_cast<std::size_t>(peer * block_ + i)];
        if (got != peer * 1'000'000 + round_) fail(where, got, peer * 1'000'000 + round_);
      }
    }
  }
  MPI_Request request = MPI_REQUEST_NULL;

 private:
  int block_;
  int round_;
  std::vector<int> send_, receive_;
};

int block_for(int round) {
  return round % 7 == 0 ? 20'000 : 1 + round % 50;
}

// (1)
void post_and_complete(MPI_Comm communicator, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    Exchange a(communicator, block_for(round), round);
    Exchange b(communicator, block_for(round + 3), round + 1);
    MPI_Request both[2] = {a.request, b.request};
    if (round % 2 == 0) {
      MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    } else {
      int index;
      MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
      MPI_Wait(&both[1 - index], MPI_STATUS_IGNORE);
    }
    a.check("own thread");
    b.check("own thread");
  }
}

// (2)
class Queue {
 public:
  void push(Exchange* exchange) {
    std::unique_lock lock(mutex_);
    space_.wait(lock, [this] { return waiting_.size() < 8; });
    waiting_.push_back(exchange);
    filled_.notify_one();
  }
  Exchange* pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !waiting_.empty(); });
    Exchange* exchange = waiting_.front();
    waiting_.pop_front();
    space_.notify_one();
    return exchange;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_, space_;
  std::deque<Exchange*> waiting_;
};

void post_for_others(Queue& queue, MPI_Comm communicator, int rounds) {
  for (int round = 0; round < rounds; ++round) queue.push(new Exchange(communicator, block_for(round), round));
  queue.push(nullptr);
}

void complete_for_others(Queue& queue) {
  while (Exchange* exchange = queue.pop()) {
    int done = 0;
    for (int tries = 0; tries < 20 && done == 0; ++tries) MPI_Test(&exchange->request, &done, MPI_STATUS_IGNORE);
    if (done == 0) MPI_Wait(&exchange->request, MPI_STATUS_IGNORE);
    exchange->check("another thread's operation");
    delete exchange;
  }
}

// (3) and (4): odd ranks enter only after a message from their left neighbor's other thread.
void wait_for_late(MPI_Comm communicator, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    int token = -1;
    if (world_rank % 2 == 1) {
      MPI_Recv(&token, 1, MPI_INT, world_rank - 1, 3, communicator, MPI_STATUS_IGNORE);
      if (token != round) fail("message that lets a rank enter", token, round);
    }
    Exchange exchange(communicator, block_for(round), round);
    MPI_Wait(&exchange.request, MPI_STATUS_IGNORE);
    exchange.check("late rank");
  }
}

void send_tokens(MPI_Comm communicator, int rounds) {
  if (world_rank % 2 == 1 || world_rank + 1 >= world_size) return;
  for (int round = 0; round < rounds; ++round) {
    if (round % 10 == 0) usleep(1000);
    MPI_Ssend(&round, 1, MPI_INT, world_rank + 1, 3, communicator);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided != MPI_THREAD_MULTIPLE) {
    std::fprintf(stderr, "threads: this MPI has no MPI_THREAD_MULTIPLE\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  alarm(watchdog_s);
  std::vector<MPI_Comm> communicators(own_threads + 2);
  for (MPI_Comm& communicator : communicators) MPI_Comm_dup(MPI_COMM_WORLD, &communicator);

  Queue queue;
  std::vector<std::thread> threads;
  for (int i = 0; i < own_threads; ++i) {
    threads.emplace_back(post_and_complete, communicators[static_cast<std::size_t>(i)], rounds);
  }
  threads.emplace_back(post_for_others, std::ref(queue), communicators[own_threads], rounds);
  threads.emplace_back(complete_for_others, std::ref(queue));
  threads.emplace_back(wait_for_late, communicators[own_threads + 1], rounds);
  threads.emplace_back(send_tokens, communicators[own_threads + 1], rounds);
  for (std::thread& thread : threads) thread.join();

  for (MPI_Comm& communicator : communicators) MPI_Comm_free(&communicator);
  MPI_Finalize();
  if (world_rank == 0) std::printf("threads: %d rounds, %d ranks: all right\n", rounds, world_size);
  return 0;
}
