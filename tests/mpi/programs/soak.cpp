// Many operations with random allocation and freeing between them.
//
//   soak OPERATIONS [SEED [FORK]]
//
// All ranks draw the operations from one seed: collective, size of blocks, number of outstanding ones. Each rank draws
// from its own seed the source of its buffers, their growth and moves, and its other allocations. If FORK is not 0,
// children are made each time after this many operations, with some outstanding; they share their parent's memory for a
// while, which the parent keeps using. Every byte is checked; so is memory beside the operations, in case of a late
// copy to a freed buffer. Memory that remains after everything has been freed must not grow.

#include <malloc.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kMostOutstanding = 4;
constexpr std::size_t kMostIdle = 48;  // pieces of memory beside the operations
constexpr std::size_t kMostIdleBytes = 512 << 10;
constexpr long kMostGrowthKib = 16 << 10;

using Random = std::mt19937_64;

int rank = 0;
int size = 0;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "soak: rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

std::size_t below(Random& random, std::size_t limit) {
  return static_cast<std::size_t>(random() % limit);
}

// Small sizes are as frequent as large ones of the same number of digits.
std::size_t size_up_to(Random& random, std::size_t most) {
  std::size_t bytes = most;
  while (bytes > 1 && below(random, 8) != 0) bytes /= 2;
  return 1 + below(random, bytes);
}

class Memory {
 public:
  Memory(Random& random, std::size_t bytes) : kind_(below(random, 8)), bytes_(bytes) {
    if (kind_ == 0) {
      MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &base_);
    } else if (kind_ <= 2) {
      base_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (base_ == MAP_FAILED) base_ = nullptr;
    } else {
      base_ = std::malloc(bytes);
    }
    if (base_ == nullptr) fail("no memory for " + std::to_string(bytes) + " bytes");
  }
  ~Memory() {
    if (kind_ == 2 || kind_ == 3) grow();
    if (kind_ == 0) {
      MPI_Free_mem(base_);
    } else if (kind_ <= 2) {
      ::munmap(base_, bytes_);
    } else {
      std::free(base_);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] unsigned char* bytes() const { return static_cast<unsigned char*>(base_); }
  void fill(std::size_t offset, std::size_t bytes, unsigned value) const {
    std::memset(this->bytes() + offset, static_cast<int>(value & 0xFF), bytes);
  }
  void check(std::size_t offset, std::size_t bytes, unsigned value, const char* what) const {
    const unsigned char* at = this->bytes() + offset;
    const bool same = bytes == 0 || (*at == (value & 0xFF) && std::memcmp(at, at + 1, bytes - 1) == 0);
    if (!same) fail(std::string("wrong bytes in ") + what);
  }

 private:
  // To twice its size: mapped memory moves, unless there is room after it.
  void grow() {
    const unsigned char first = *bytes();
    const unsigned char last = bytes()[bytes_ - 1];
    void* grown = kind_ == 2 ? ::mremap(base_, bytes_, 2 * bytes_, MREMAP_MAYMOVE) : std::realloc(base_, 2 * bytes_);
    if (grown == nullptr || grown == MAP_FAILED) fail("no memory to grow");
    base_ = grown;
    if (*bytes() != first || bytes()[bytes_ - 1] != last) fail("wrong bytes in memory that has grown");
    bytes_ *= 2;
    std::memset(base_, 0, bytes_);
  }

  std::size_t kind_;
  std::size_t bytes_;
  void* base_ = nullptr;
};

class Operation {
 public:
  Operation(Random& common, Random& own, unsigned number)
      : number_(number),
        block_(size_up_to(common, 256 << 10)),
        send_(own, total()),
        receive_(own, total()),
        counts_(static_cast<std::size_t>(size), static_cast<int>(block_)) {
    const bool varying = below(common, 2) == 0;
    for (int peer = 0; peer < size; ++peer) {
      send_.fill(offset(peer), block_, value(rank, peer));
      displacements_.push_back(static_cast<int>(offset(peer)));
    }
    receive_.fill(0, total(), number_ + 101);
    const int count = static_cast<int>(block_);
    if (varying) {
      MPI_Ialltoallv(send_.bytes(), counts_.data(), displacements_.data(), MPI_BYTE, receive_.bytes(), counts_.data(),
                     displacements_.data(), MPI_BYTE, MPI_COMM_WORLD, &request_);
    } else {
      MPI_Ialltoall(send_.bytes(), count, MPI_BYTE, receive_.bytes(), count, MPI_BYTE, MPI_COMM_WORLD, &request_);
    }
  }
  void finish() {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    for (int peer = 0; peer < size; ++peer) receive_.check(offset(peer), block_, value(peer, rank), "a received block");
  }

 private:
  [[nodiscard]] std::size_t total() const { return block_ * static_cast<std::size_t>(size); }
  [[nodiscard]] std::size_t offset(int peer) const { return block_ * static_cast<std::size_t>(peer); }
  [[nodiscard]] unsigned value(int source, int destination) const {
    return 7 * number_ + 31 * static_cast<unsigned>(source) + 3 * static_cast<unsigned>(destination);
  }

  unsigned number_;
  std::size_t block_;
  Memory send_, receive_;
  std::vector<int> counts_, displacements_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// The program's memory beside its operations.
class Idle {
 public:
  void change(Random& random) {
    if (!pieces_.empty() && (pieces_.size() == kMostIdle || below(random, 2) == 0)) {
      std::swap(pieces_[below(random, pieces_.size())], pieces_.back());
      drop_last();
    } else {
      const std::size_t bytes = size_up_to(random, kMostIdleBytes);
      const auto value = static_cast<unsigned>(random());
      pieces_.push_back(Piece{std::make_unique<Memory>(random, bytes), bytes, value});
      pieces_.back().memory->fill(0, bytes, value);
    }
  }
  void drop_all() {
    while (!pieces_.empty()) drop_last();
  }

 private:
  struct Piece {
    std::unique_ptr<Memory> memory;
    std::size_t bytes;
    unsigned value;
  };
  void drop_last() {
    pieces_.back().memory->check(0, pieces_.back().bytes, pieces_.back().value, "memory beside the operations");
    pieces_.pop_back();
  }
  std::vector<Piece> pieces_;
};

// One at a time, each for some milliseconds.
class Children {
 public:
  void make_one() {
    end_last();
    child_ = ::fork();
    if (child_ < 0) fail("fork failed");
    if (child_ == 0) {
      ::usleep(20'000);
      ::_exit(0);
    }
  }
  void end_last() {
    int status = 0;
    if (child_ > 0 && (::waitpid(child_, &status, 0) != child_ || status != 0)) fail("a child has not ended well");
    child_ = 0;
  }

 private:
  pid_t child_ = 0;
};

// With as little as possible kept by malloc.
long resident_kib() {
  malloc_trim(0);
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::atol(line.c_str() + 8);
  }
  fail("no RssAnon in /proc/self/status");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long operations = argc > 1 ? std::atol(argv[1]) : 1'000'000;
  const auto seed = static_cast<std::uint64_t>(argc > 2 ? std::atol(argv[2]) : 1);
  Random common(seed);
  Random own(seed * 1000 + static_cast<std::uint64_t>(rank) + 1);
  const long fork_after = argc > 3 ? std::atol(argv[3]) : 0;
  Idle idle;
  Children children;
  std::deque<std::unique_ptr<Operation>> outstanding;
  const auto finish_to = [&outstanding](std::size_t left) {
    for (; outstanding.size() > left; outstanding.pop_front()) outstanding.front()->finish();
  };
  long early_kib = 0;
  for (long done = 0; done < operations; ++done) {
    outstanding.push_back(std::make_unique<Operation>(common, own, static_cast<unsigned>(done)));
    for (std::size_t changes = below(own, 4); changes != 0; --changes) idle.change(own);
    if (fork_after != 0 && done % fork_after == fork_after - 1) children.make_one();
    finish_to(below(common, kMostOutstanding));
    if (done == operations / 4) {
      finish_to(0);
      idle.drop_all();
      early_kib = resident_kib();
    }
  }
  finish_to(0);
  children.end_last();
  idle.drop_all();
  const long grown_kib = resident_kib() - early_kib;
  std::printf("soak: rank %d: %ld operations, seed %lu: all right, grown by %ld KiB\n", rank, operations,
              static_cast<unsigned long>(seed), grown_kib);
  std::fflush(stdout);
  if (grown_kib > kMostGrowthKib) fail("that is more than it may grow");
  MPI_Finalize();
  return 0;
}
