// Calls that may be tried natively and offloaded and decided by measurements. Every byte is checked.
//
//   choices steady CALLS           one kind of call, with work between post and wait
//   choices changing CALLS         sizes, collectives and work change in the middle, ranks call with different delays
//   choices skewed CALLS           v-forms, one rank has most of the bytes, round-robin
//   choices communicators COUNT    short-lived ones, with a few calls each, some of them outstanding when others end
//   choices threads CALLS          each thread has a communicator of its own
//
// Rank 0 prints "choices: N calls, right".

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> right = true;
std::atomic<long> calls = 0;

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

unsigned char byte_of(int from, int to, long call, int index) {
  return static_cast<unsigned char>(from * 31 + to * 17 + call * 7 + index % 251);
}

class Communicator {
 public:
  explicit Communicator(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  void alltoall(int bytes, std::chrono::microseconds work) {
    const std::vector<int> counts(static_cast<std::size_t>(size_), bytes);
    fill(counts);
    receive_.assign(send_.size(), 0);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoall(send_.data(), bytes, MPI_BYTE, receive_.data(), bytes, MPI_BYTE, comm_, &request);
    finish(request, counts, work);
  }

  // counts[a][b]: from a to b.
  void alltoallv(const std::function<int(int, int)>& count, std::chrono::microseconds work) {
    std::vector<int> sends;
    std::vector<int> receives;
    for (int other = 0; other < size_; ++other) {
      sends.push_back(count(rank_, other));
      receives.push_back(count(other, rank_));
    }
    fill(sends);
    const std::vector<int> send_at = places(sends);
    const std::vector<int> receive_at = places(receives);
    receive_.assign(static_cast<std::size_t>(receive_at.back() + receives.back()) + 1, 0);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoallv(send_.data(), sends.data(), send_at.data(), MPI_BYTE, receive_.data(), receives.data(),
                   receive_at.data(), MPI_BYTE, comm_, &request);
    finish(request, receives, work);
  }

  void bcast(int bytes, std::chrono::microseconds work) {
    const int root = static_cast<int>(call_ % size_);
    receive_.assign(static_cast<std::size_t>(bytes), 0);
    for (int i = 0; rank_ == root && i < bytes; ++i) receive_[static_cast<std::size_t>(i)] = byte_of(root, 0, call_, i);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(receive_.data(), bytes, MPI_BYTE, root, comm_, &request);
    work_for(work);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; ++i) expect(receive_[static_cast<std::size_t>(i)] == byte_of(root, 0, call_, i));
    end_call();
  }

 private:
  static std::vector<int> places(const std::vector<int>& counts) {
    std::vector<int> at;
    int next = 0;
    for (const int count : counts) {
      at.push_back(next);
      next += count;
    }
    return at;
  }
  void fill(const std::vector<int>& counts) {
    send_.clear();
    for (int to = 0; to < size_; ++to) {
      for (int i = 0; i < counts[static_cast<std::size_t>(to)]; ++i) send_.push_back(byte_of(rank_, to, call_, i));
    }
    send_.push_back(0);
  }
  void finish(MPI_Request request, const std::vector<int>& counts, std::chrono::microseconds work) {
    work_for(work);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    std::size_t at = 0;
    for (int from = 0; from < size_; ++from) {
      for (int i = 0; i < counts[static_cast<std::size_t>(from)]; ++i, ++at) {
        expect(receive_[at] == byte_of(from, rank_, call_, i));
      }
    }
    end_call();
  }
  void end_call() {
    ++call_;
    ++calls;
  }
  static void expect(bool holds) {
    if (!holds) right = false;
  }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 0;
  long call_ = 0;
  std::vector<unsigned char> send_;
  std::vector<unsigned char> receive_;
};

constexpr std::chrono::microseconds kNoWork{0};

void steady(long count) {
  Communicator world(MPI_COMM_WORLD);
  for (long call = 0; call < count; ++call) world.alltoall(20'000, std::chrono::microseconds(50));
}

void changing(long count) {
  Communicator world(MPI_COMM_WORLD);
  for (long call = 0; call < count; ++call) {
    const bool later = call > count / 2;
    const std::chrono::microseconds work(later ? 0 : 30 * (world.rank() + 1));
    if (call % 7 == world.rank()) work_for(std::chrono::microseconds(call % 200));
    world.alltoall(later ? 500 : 12'000, work);
    if (call % 3 == 0) world.bcast(later ? 30'000 : 100, work);
  }
}

void skewed(long count) {
  Communicator world(MPI_COMM_WORLD);
  for (long call = 0; call < count; ++call) {
    const int large = static_cast<int>(call / 50) % world.size();
    world.alltoallv([&](int from, int to) { return from == large ? 30'000
                                                   : to == large ? 0
                                                                 : 10; },
                    std::chrono::microseconds(20));
  }
}

void communicators(long count) {
  Communicator world(MPI_COMM_WORLD);
  for (long i = 0; i < count; ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    if (i % 3 == 0) {
      MPI_Comm_split(MPI_COMM_WORLD, i % 2 == 0 ? world.rank() % 2 : 0, -world.rank(), &comm);
    } else {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    Communicator here(comm);
    const long few = i % 100 == 0 ? 400 : i % 50 + 1;  // some of them reach a trial
    for (long call = 0; call < few; ++call) here.alltoall(i % 2 == 0 ? 9'000 : 64, kNoWork);
    MPI_Comm_free(&comm);
  }
}

void threads(long count) {
  std::vector<MPI_Comm> comms(3);
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> running;
  for (const MPI_Comm comm : comms) {
    running.emplace_back([comm, count] {
      Communicator here(comm);
      for (long call = 0; call < count; ++call) here.alltoall(10'000, kNoWork);
    });
  }
  for (std::thread& thread : running) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::map<std::string, void (*)(long)> modes{{"steady", steady},
                                                    {"changing", changing},
                                                    {"skewed", skewed},
                                                    {"communicators", communicators},
                                                    {"threads", threads}};
  const auto mode = modes.find(argc > 2 ? argv[1] : "");
  if (mode == modes.end()) MPI_Abort(MPI_COMM_WORLD, 2);
  if (mode->first == "threads" && provided < MPI_THREAD_MULTIPLE) {
    if (rank == 0) std::puts("choices: no threads here");
  } else {
    mode->second(std::atol(argv[2]));
  }
  int mine = right ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0) std::printf("choices: %ld calls, %s\n", calls.load(), all == 1 ? "right" : "WRONG");
  MPI_Finalize();
  return all == 1 ? 0 : 1;
}
