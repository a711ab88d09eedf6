// Counts the instructions of a rank inside MPI_Ialltoall and inside an MPI_Wait after the data has arrived, and the
// same for MPI_Start and MPI_Wait of the persistent form. Blocks have different sizes, in memory from MPI_Alloc_mem and
// from malloc.
//
//   instructions BYTES...
//
// Rank 0 runs under valgrind --tool=callgrind, which writes a profile for each call, named "CALL MEMORY BYTES" by the
// client request below. Without valgrind or its header nothing is written.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "persistent_calls.hpp"

#if __has_include(<valgrind/callgrind.h>)
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#include <valgrind/callgrind.h>
constexpr bool kCounts = true;
#else
constexpr bool kCounts = false;
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) static_cast<void>(name)
#endif

namespace {

constexpr int kFirstOperations = 5;        // until buffers are known and caches filled
constexpr int kMostFirstOperations = 100;  // until helpers have started, which a busy machine delays
constexpr int kOperations = 6;
constexpr std::size_t kPageBytes = 4096;
constexpr useconds_t kPollUs = 1000;
constexpr useconds_t kSettleUs = 30'000;  // from the last byte to the completion; grows with each measured call
constexpr int kLongestOwnPolls = 3000;    // valgrind makes the helper's own copy, a memcpy, fifty times slower
constexpr int kLongestPolls = 20'000;

int rank = 0;
int size = 0;

class Buffers {
 public:
  Buffers(bool mapped, std::size_t block) : mapped_(mapped), block_(block), send_(allocate()), receive_(allocate()) {}
  ~Buffers() {
    if (persistent_ != MPI_REQUEST_NULL) MPI_Request_free(&persistent_);
    release(send_);
    release(receive_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  void post() {
    next_round();
    const int count = static_cast<int>(block_);
    const bool starts = persistent_ != MPI_REQUEST_NULL;
    const std::string name = name_of(starts ? "start" : "post");
    profile_begins();
    if (starts) {
      MPI_Start(&persistent_);
    } else {
      MPI_Ialltoall(send_, count, MPI_BYTE, receive_, count, MPI_BYTE, MPI_COMM_WORLD, &request_);
    }
    profile_ends(name);
  }
  void wait() {
    const bool started = persistent_ != MPI_REQUEST_NULL;
    const std::string name = name_of(started ? "end" : "wait");
    profile_begins();
    MPI_Wait(started ? &persistent_ : &request_, MPI_STATUS_IGNORE);
    profile_ends(name);
  }
  // From now on the persistent form, if the MPI has it.
  [[nodiscard]] bool make_persistent() {
    if (!persistent::calls().there()) return false;
    const int count = static_cast<int>(block_);
    persistent::calls().alltoall(send_, count, MPI_BYTE, receive_, count, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &persistent_);
    return true;
  }
  // Only reads the memory: the data must come without MPI calls.
  void sleep_until_filled(int patience) const {
    for (int polls = 0; !filled(); ++polls) {
      if (polls == kLongestPolls) {
        std::fprintf(stderr, "instructions: the data does not come without MPI calls\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      usleep(kPollUs);
    }
    if (measured_) sleep_until_helped();
    usleep(kSettleUs * static_cast<useconds_t>(patience));
  }
  void measured(bool yes) { measured_ = yes; }
  // Another thread or process has copied this rank's own block.
  [[nodiscard]] bool is_helped() const { return here(rank); }

 private:
  void next_round() {
    ++round_;
    for (std::size_t end = block_; end <= bytes(); end += block_) send_[end - 1] = round_;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  [[nodiscard]] std::size_t bytes() const { return block_ * static_cast<std::size_t>(size); }
  [[nodiscard]] char* allocate() const {
    void* memory = nullptr;
    if (mapped_) {
      MPI_Alloc_mem(static_cast<MPI_Aint>(bytes()), MPI_INFO_NULL, &memory);
    } else {
      memory = std::malloc(bytes());
    }
    if (memory == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
    auto* bytes_there = static_cast<char*>(memory);
    for (std::size_t at = 0; at < bytes(); at += kPageBytes) bytes_there[at] = 0;
    return bytes_there;
  }
  void release(char* memory) const {
    if (mapped_) {
      MPI_Free_mem(memory);
    } else {
      std::free(memory);
    }
  }
  [[nodiscard]] bool filled() const {
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank && !here(peer)) return false;  // the own block may have to wait for MPI_Wait
    }
    return true;
  }
  void sleep_until_helped() const {
    for (int polls = 0; !is_helped() && polls < kLongestOwnPolls; ++polls) usleep(kPollUs);
  }
  [[nodiscard]] bool here(int peer) const {
    const volatile char* memory = receive_;
    return memory[block_ * static_cast<std::size_t>(peer + 1) - 1] == round_;
  }
  [[nodiscard]] std::string name_of(const char* call) const {
    return std::string(call) + (mapped_ ? " mapped " : " malloc ") + std::to_string(block_);
  }
  void profile_begins() const {
    if (measured_) CALLGRIND_ZERO_STATS;
  }
  void profile_ends(const std::string& name) const {
    if (measured_) CALLGRIND_DUMP_STATS_AT(name.c_str());
  }

  bool mapped_;
  bool measured_ = false;
  std::size_t block_;
  char round_ = 0;
  char* send_;
  char* receive_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Request persistent_ = MPI_REQUEST_NULL;
};

bool exchange(Buffers& buffers, int patience = 1) {
  buffers.post();
  buffers.sleep_until_filled(patience);
  int helped = buffers.is_helped() ? 1 : 0;
  buffers.wait();
  MPI_Bcast(&helped, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return helped != 0;
}

void run(bool mapped, std::size_t block) {
  Buffers buffers(mapped, block);
  bool helped = false;
  for (int i = 0; i < kFirstOperations || (!helped && i < kMostFirstOperations); ++i) helped = exchange(buffers);
  buffers.measured(rank == 0);
  for (int i = 0; i < kOperations; ++i) exchange(buffers, i + 1);
  if (!buffers.make_persistent()) return;
  buffers.measured(false);
  for (int i = 0; i < kFirstOperations; ++i) exchange(buffers);
  buffers.measured(rank == 0);
  for (int i = 0; i < kOperations; ++i) exchange(buffers, i + 1);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int call = 0; call < 20; ++call)
    MPI_Barrier(MPI_COMM_WORLD);  // then the ranks share memory in all that is counted
  CALLGRIND_START_INSTRUMENTATION;
  for (const bool mapped : {true, false}) {
    for (int i = 1; i < argc; ++i) run(mapped, static_cast<std::size_t>(std::atol(argv[i])));
  }
  MPI_Finalize();
  if (rank == 0) std::printf("instructions: done%s\n", kCounts ? "" : ", but built without valgrind's header");
  return 0;
}
