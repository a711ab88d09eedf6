// Large memory from malloc in typical use. Runs natively, and with the shared heap, where it comes from memory that
// service processes map, too:
//
//   heap fork [alloc_mem]   children are made in every way while operations are outstanding; none sees later writes of
//                           its parent, and the parent sees none of theirs. With alloc_mem the arrays are
//                           from MPI_Alloc_mem.
//   heap churn STEPS SEED   threads allocate, resize and free at random, and the process forks; every byte is checked

#include <malloc.h>
#include <mpi.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Random = std::mt19937_64;

int rank = 0;
int size = 0;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "heap: rank %d: %s\n", rank, what.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// Children cannot abort the job: they exit with this status and print the reason.
[[noreturn]] void fail_in_child(const char* what) {
  static_cast<void>(!write(STDERR_FILENO, what, std::strlen(what)));
  _exit(1);
}

bool all_are(const unsigned char* bytes, std::size_t count, unsigned value) {
  const auto byte = static_cast<unsigned char>(value);
  return count == 0 || (*bytes == byte && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

void wait_for_success(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("a child went wrong");
}

// --- fork ---

// Tells the other process that this one has reached a point.
class Signal {
 public:
  Signal() {
    if (pipe(ends_) != 0) fail("no pipe");
  }
  ~Signal() {
    close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void give() const { static_cast<void>(!write(ends_[1], "x", 1)); }
  // Also returns if the other process has ended.
  void await() {
    close(ends_[1]);
    ends_[1] = -1;
    char text = 0;
    static_cast<void>(!read(ends_[0], &text, 1));
  }

 private:
  int ends_[2];
};

bool by_alloc_mem = false;

unsigned char* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (by_alloc_mem) {
    MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &memory);
  } else {
    memory = std::malloc(bytes);
  }
  if (memory == nullptr) fail("no memory");
  return static_cast<unsigned char*>(memory);
}

void give_back(void* memory) {
  if (by_alloc_mem) {
    MPI_Free_mem(memory);
  } else {
    std::free(memory);
  }
}

// An all-to-all in the middle of larger arrays, so that pages also contain bytes that the program writes meanwhile.
class Exchange {
 public:
  static constexpr std::size_t kEdge = 150'001;
  explicit Exchange(std::size_t block) : block_(block), bytes_(2 * kEdge + block * static_cast<std::size_t>(size)) {
    for (unsigned char** array : {&send_, &receive_}) {
      *array = allocate(bytes_);
      std::memset(*array, kBefore, bytes_);
    }
    for (int peer = 0; peer < size; ++peer) std::memset(at(send_, peer), value(rank, peer), block_);
    MPI_Ialltoall(at(send_, 0), static_cast<int>(block), MPI_BYTE, at(receive_, 0), static_cast<int>(block), MPI_BYTE,
                  MPI_COMM_WORLD, &request_);
  }
  ~Exchange() {
    give_back(send_);
    give_back(receive_);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void write_edges(unsigned value) {
    for (unsigned char* array : {send_, receive_}) {
      std::memset(array, static_cast<int>(value), kEdge);
      std::memset(array + bytes_ - kEdge, static_cast<int>(value), kEdge);
    }
  }
  // The part that may be read during the operation.
  [[nodiscard]] bool edges_are(unsigned value) const {
    for (const unsigned char* array : {send_, receive_}) {
      if (!all_are(array, kEdge, value) || !all_are(array + bytes_ - kEdge, kEdge, value)) return false;
    }
    return true;
  }
  [[nodiscard]] bool sent_is_there() const {
    for (int peer = 0; peer < size; ++peer) {
      if (!all_are(at(send_, peer), block_, value(rank, peer))) return false;
    }
    return true;
  }
  void overwrite() {
    std::memset(send_, kByChild, bytes_);
    std::memset(receive_, kByChild, bytes_);
  }
  void finish() {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    for (int peer = 0; peer < size; ++peer) {
      if (!all_are(at(receive_, peer), block_, value(peer, rank))) fail("wrong bytes in a received block");
    }
    if (!sent_is_there()) fail("sent blocks have changed");
  }

  static constexpr unsigned kBefore = 1;
  static constexpr unsigned kByParent = 2;
  static constexpr unsigned kByChild = 3;

 private:
  [[nodiscard]] unsigned char* at(unsigned char* array, int peer) const {
    return array + kEdge + block_ * static_cast<std::size_t>(peer);
  }
  static int value(int source, int destination) { return 16 + 7 * source + destination; }
  std::size_t block_;
  std::size_t bytes_;
  unsigned char* send_ = nullptr;
  unsigned char* receive_ = nullptr;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

[[noreturn]] void be_child(Exchange& exchange, Signal& parent_wrote, const Signal& child_wrote) {
  parent_wrote.await();
  if (!exchange.edges_are(Exchange::kBefore)) fail_in_child("heap: a child sees what its parent wrote\n");
  if (!exchange.sent_is_there()) fail_in_child("heap: a child does not see what was sent\n");
  exchange.overwrite();
  auto* own = static_cast<unsigned char*>(std::malloc(3 << 20));
  if (own == nullptr) fail_in_child("heap: no memory in a child\n");
  std::memset(own, 9, 3 << 20);
  if (const pid_t grandchild = fork(); grandchild == 0) {
    if (!all_are(own, 3 << 20, 9) || !exchange.edges_are(Exchange::kByChild))
      fail_in_child("heap: a grandchild is wrong\n");
    std::memset(own, 10, 3 << 20);
    _exit(0);
  } else {
    int status = 1;
    if (waitpid(grandchild, &status, 0) != grandchild || status != 0) _exit(1);
  }
  if (!all_are(own, 3 << 20, 9)) fail_in_child("heap: a grandchild writes to its parent's memory\n");
  std::free(own);
  child_wrote.give();
  _exit(0);
}

void start_programs() {
  if (std::system("exit 0") != 0) fail("system failed");
  FILE* const pipe = popen("echo hello", "r");
  char text[16] = {};
  if (pipe == nullptr || std::fgets(text, sizeof text, pipe) == nullptr || std::string(text) != "hello\n") {
    fail("popen failed");
  }
  pclose(pipe);
  pid_t child = -1;
  const char* words[] = {"/bin/true", nullptr};
  if (posix_spawn(&child, words[0], nullptr, nullptr, const_cast<char**>(words), environ) != 0)
    fail("posix_spawn failed");
  wait_for_success(child);
  child = vfork();
  if (child == 0) {
    execv(words[0], const_cast<char**>(words));
    _exit(127);
  }
  wait_for_success(child);
}

void fork_mode() {
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    Exchange earlier(40'000);
    earlier.finish();
    Exchange exchange(200'000);
    Signal parent_wrote;
    Signal child_wrote;
    const pid_t child = fork();
    if (child < 0) fail("fork failed");
    if (child == 0) be_child(exchange, parent_wrote, child_wrote);
    exchange.write_edges(Exchange::kByParent);
    earlier.write_edges(Exchange::kByParent);
    if (round % 2 == 0) exchange.finish();
    parent_wrote.give();
    child_wrote.await();
    if (!exchange.edges_are(Exchange::kByParent)) fail("a child writes to its parent's memory");
    if (round % 2 != 0) exchange.finish();
    Exchange later(100'000);
    start_programs();
    later.finish();
    wait_for_success(child);
    if (!earlier.edges_are(Exchange::kByParent) || !earlier.sent_is_there())
      fail("memory of before a fork has changed");
  }
}

// --- churn ---

class Pieces {
 public:
  explicit Pieces(std::uint64_t seed) : random_(seed) {}
  ~Pieces() {
    for (const Piece& piece : pieces_) std::free(piece.bytes);
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  void step() {
    if (pieces_.size() < 4 || (pieces_.size() < 24 && below(2) == 0)) return add();
    Piece& piece = pieces_[below(pieces_.size())];
    check(piece);
    if (below(3) == 0) return resize(piece);
    std::free(piece.bytes);
    piece = pieces_.back();
    pieces_.pop_back();
  }
  [[nodiscard]] bool all_right() const {
    for (const Piece& piece : pieces_) {
      if (!all_are(piece.bytes, piece.count, piece.value)) return false;
    }
    return true;
  }

 private:
  struct Piece {
    unsigned char* bytes;
    std::size_t count;
    unsigned value;
  };
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  // About the smallest size that the heap serves, mostly not much above it.
  std::size_t any_count() {
    std::size_t most = 2 << 20;
    while (most > 1000 && below(4) != 0) most /= 2;
    return 1 + below(most);
  }
  static void check(const Piece& piece) {
    if (!all_are(piece.bytes, piece.count, piece.value)) fail("allocated memory has changed");
  }
  void fill(Piece& piece) {
    if (malloc_usable_size(piece.bytes) < piece.count) fail("an allocation is smaller than asked for");
    piece.value = static_cast<unsigned>(random_() & 0xFF);
    std::memset(piece.bytes, static_cast<int>(piece.value), piece.count);
  }
  void add() {
    Piece piece{nullptr, any_count(), 0};
    const std::size_t alignment = std::size_t{16} << below(18);
    void* found = nullptr;
    switch (below(4)) {
      case 0: found = std::calloc(1, piece.count); break;
      case 1: found = std::aligned_alloc(alignment, piece.count); break;
      case 2: static_cast<void>(posix_memalign(&found, alignment, piece.count)); break;
      default: found = ::operator new(piece.count); break;
    }
    if (found == nullptr) fail("no memory");
    piece.bytes = static_cast<unsigned char*>(found);
    pieces_.push_back(piece);
    fill(pieces_.back());
  }
  void resize(Piece& piece) {
    const std::size_t count = any_count();
    void* moved = std::realloc(piece.bytes, count);
    if (moved == nullptr) fail("no memory");
    piece.bytes = static_cast<unsigned char*>(moved);
    if (!all_are(piece.bytes, std::min(count, piece.count), piece.value)) fail("realloc lost bytes");
    piece.count = count;
    fill(piece);
  }
  Random random_;
  std::vector<Piece> pieces_;
};

void check_zeroed() {
  for (std::size_t count = 40'000; count < (8 << 20); count = count * 5 / 3) {
    auto* bytes = static_cast<unsigned char*>(std::calloc(count, 1));
    if (bytes == nullptr || !all_are(bytes, count, 0)) fail("calloc gives memory that is not zero");
    std::memset(bytes, 0xFF, count);
    std::free(bytes);
  }
}

void check_errors() {
  void* untouched = &rank;
  if (posix_memalign(&untouched, 24, 100'000) != EINVAL || untouched != &rank)
    fail("posix_memalign takes any alignment");
  volatile std::size_t huge = SIZE_MAX / 2;
  if (std::malloc(huge) != nullptr) fail("malloc gives half of all addresses");
  if (std::calloc(huge, 4) != nullptr) fail("calloc does not notice an overflow");
}

void churn_mode(long steps, std::uint64_t seed) {
  constexpr int kThreads = 3;
  constexpr int kForks = 4;
  check_errors();
  check_zeroed();
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([=, &running] {
      Pieces pieces(seed * 100 + static_cast<std::uint64_t>(number));
      for (long done = 0; done < steps; ++done) pieces.step();
      --running;
    });
  }
  Pieces mine(seed * 100 + kThreads);
  for (int forks = 0; forks < kForks || running != 0; ++forks) {
    for (long done = 0; done < steps / kForks; ++done) mine.step();
    if (forks >= kForks) continue;
    const pid_t child = fork();
    if (child == 0) {
      for (long done = 0; done < 100; ++done) mine.step();
      _exit(mine.all_right() ? 0 : 1);
    }
    wait_for_success(child);
  }
  for (std::thread& thread : threads) thread.join();
  check_zeroed();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "fork") {
    by_alloc_mem = argc > 2 && std::string(argv[2]) == "alloc_mem";
    fork_mode();
  } else if (mode == "churn" && argc == 4) {
    churn_mode(std::atol(argv[2]), static_cast<std::uint64_t>(std::atol(argv[3]) + rank));
  } else {
    fail("usage: heap fork [alloc_mem] | heap churn STEPS SEED");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("heap: %s: all right\n", mode.c_str());
  std::fflush(stdout);
  MPI_Finalize();
  return 0;
}
