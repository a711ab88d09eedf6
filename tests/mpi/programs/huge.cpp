// Sends from the same buffers many times, so Outrigger moves them to huge pages. Every byte is checked, natively and
// offloaded:
//
//   huge again ROUNDS       two buffers from malloc are used for all rounds
//   huge allocated ROUNDS   the same from MPI_Alloc_mem
//   huge fork ROUNDS        children are made meanwhile: neither sees the other's writes
//   huge free ROUNDS        the buffers are sometimes freed and allocated again, also with other sizes
//   huge medium ROUNDS      the program's first buffers, each smaller than two huge pages; rank 0 also prints how many
//                           mappings malloc has made for them: "huge: N mappings"
//
// At the end rank 0 prints the size of the ranks' buffers in huge pages: "huge: N of M KiB in huge pages".

#include <malloc.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

int rank = 0;
int size = 0;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "huge: rank %d: %s\n", rank, what.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// Has 8 bytes, so that blocks of different rounds, ranks and places differ.
std::uint64_t value(int round, int source, int destination, std::size_t i) {
  const auto tag = static_cast<std::uint64_t>(round) * 64 + static_cast<std::uint64_t>(source * 8 + destination);
  return tag << 32U | i;
}

enum class From { malloc, mpi };

// Begins at any offset in a page, like memory from malloc.
class Buffer {
 public:
  Buffer(From from, std::size_t words) : from_(from), words_(words) {
    if (from == From::mpi) {
      MPI_Alloc_mem(static_cast<MPI_Aint>(bytes()), MPI_INFO_NULL, &at_);
    } else {
      at_ = static_cast<std::uint64_t*>(std::malloc(bytes()));
    }
    if (at_ == nullptr) fail("no memory");
    std::memset(at_, 0xFF, bytes());
  }
  ~Buffer() {
    if (from_ == From::mpi) {
      MPI_Free_mem(at_);
    } else {
      std::free(at_);
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::uint64_t* words() { return at_; }
  [[nodiscard]] std::size_t count() const { return words_; }
  [[nodiscard]] std::size_t bytes() const { return words_ * sizeof(std::uint64_t); }
  void fill(std::uint64_t word) {
    for (std::size_t i = 0; i < words_; ++i) at_[i] = word;
  }
  [[nodiscard]] bool is_all(std::uint64_t word) const {
    for (std::size_t i = 0; i < words_; ++i) {
      if (at_[i] != word) return false;
    }
    return true;
  }
  // Size of its mappings in huge pages, but no more than its own size.
  [[nodiscard]] std::size_t huge_kib() const {
    const auto begin = reinterpret_cast<std::uintptr_t>(at_);
    std::ifstream maps("/proc/self/smaps");
    bool inside = false;
    std::size_t kib = 0;
    for (std::string line; std::getline(maps, line);) {
      unsigned long low = 0;
      unsigned long high = 0;
      unsigned long count = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx ", &low, &high) == 2) inside = low < begin + bytes() && high > begin;
      if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &count) == 1) kib += count;
    }
    return kib < bytes() / 1024 ? kib : bytes() / 1024;
  }

 private:
  From from_;
  std::size_t words_;
  std::uint64_t* at_ = nullptr;
};

class Exchange {
 public:
  Exchange(From from, std::size_t block)
      : block_(block), send_(from, block * ranks()), receive_(from, block * ranks()) {}

  void post_alltoall(int round) {
    round_ = round;
    for (int peer = 0; peer < size; ++peer) fill_block(peer, peer);
    receive_.fill(kNothing);
    MPI_Ialltoall(send_.words(), count(), MPI_UINT64_T, receive_.words(), count(), MPI_UINT64_T, MPI_COMM_WORLD,
                  &request_);
  }
  void finish_alltoall() {
    finish();
    for (int peer = 0; peer < size; ++peer) {
      check(receive_.words() + at(peer), peer, rank, "alltoall");
      check(send_.words() + at(peer), rank, peer, "what was sent by alltoall");
    }
  }
  void allgather(int round) {
    round_ = round;
    fill_block(0, rank);
    receive_.fill(kNothing);
    MPI_Iallgather(send_.words(), count(), MPI_UINT64_T, receive_.words(), count(), MPI_UINT64_T, MPI_COMM_WORLD,
                   &request_);
    finish();
    for (int peer = 0; peer < size; ++peer) check(receive_.words() + at(peer), peer, peer, "allgather");
  }
  void use(int round) {
    post_alltoall(2 * round);
    finish_alltoall();
    allgather(2 * round + 1);
  }

  [[nodiscard]] Buffer& send() { return send_; }
  [[nodiscard]] Buffer& receive() { return receive_; }

 private:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};

  static std::size_t ranks() { return static_cast<std::size_t>(size); }
  [[nodiscard]] int count() const { return static_cast<int>(block_); }
  [[nodiscard]] std::size_t at(int peer) const { return block_ * static_cast<std::size_t>(peer); }
  void fill_block(int peer, int destination) {
    for (std::size_t i = 0; i < block_; ++i) send_.words()[at(peer) + i] = value(round_, rank, destination, i);
  }
  void finish() { MPI_Wait(&request_, MPI_STATUS_IGNORE); }
  void check(const std::uint64_t* block, int source, int destination, const char* what) const {
    for (std::size_t i = 0; i < block_; ++i) {
      if (block[i] == value(round_, source, destination, i)) continue;
      fail(std::string("wrong data: ") + what + " in round " + std::to_string(round_));
    }
  }

  std::size_t block_;
  Buffer send_, receive_;
  int round_ = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// Tells another process that this one has reached a point.
class Signal {
 public:
  Signal() {
    if (pipe(ends_) != 0) fail("no pipe");
  }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void give() const { static_cast<void>(!write(ends_[1], "x", 1)); }
  void await() const {
    char text = 0;
    static_cast<void>(!read(ends_[0], &text, 1));
  }

 private:
  int ends_[2];
};

constexpr std::uint64_t kBefore = 0x1111'1111'1111'1111;
constexpr std::uint64_t kByParent = 0x2222'2222'2222'2222;
constexpr std::uint64_t kByChild = 0x3333'3333'3333'3333;

// Both buffers are idle: child and parent each write one half while the other reads.
void write_apart(Exchange& exchange) {
  for (Buffer* buffer : {&exchange.send(), &exchange.receive()}) buffer->fill(kBefore);
  const Signal parent_wrote;
  const Signal child_wrote;
  const pid_t child = fork();
  if (child < 0) fail("fork failed");
  if (child == 0) {
    parent_wrote.await();
    if (!exchange.send().is_all(kBefore) || !exchange.receive().is_all(kBefore)) _exit(2);
    for (Buffer* buffer : {&exchange.send(), &exchange.receive()}) buffer->fill(kByChild);
    child_wrote.give();
    _exit(exchange.send().is_all(kByChild) && exchange.receive().is_all(kByChild) ? 0 : 3);
  }
  exchange.send().fill(kByParent);
  parent_wrote.give();
  child_wrote.await();
  if (!exchange.send().is_all(kByParent) || !exchange.receive().is_all(kBefore)) fail("a child writes to its parent");
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) fail("a child sees what its parent writes, or went wrong");
}

// A child overwrites its copies while other ranks read and write the parent's.
void spoil_in_child(Exchange& exchange, int round) {
  exchange.post_alltoall(round);
  const pid_t child = fork();
  if (child < 0) fail("fork failed");
  if (child == 0) {
    for (Buffer* buffer : {&exchange.send(), &exchange.receive()}) buffer->fill(kByChild);
    _exit(0);
  }
  exchange.finish_alltoall();
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) fail("a child went wrong");
}

void say_how_much_is_huge(Exchange& exchange) {
  const unsigned long long mine[2] = {exchange.send().huge_kib() + exchange.receive().huge_kib(),
                                      (exchange.send().bytes() + exchange.receive().bytes()) / 1024};
  unsigned long long all[2] = {};
  MPI_Reduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("huge: %llu of %llu KiB in huge pages\n", all[0], all[1]);
  std::fflush(stdout);
}

constexpr std::size_t kBlock = 350'001;  // words, 2.8 MB

void use_again(From from, int rounds) {
  Exchange exchange(from, kBlock);
  for (int round = 0; round < rounds; ++round) exchange.use(round);
  say_how_much_is_huge(exchange);
}

constexpr std::size_t kMediumBytes = 3U << 20;  // of a buffer

void use_medium(int rounds) {
  const std::size_t before = mallinfo2().hblks;
  Exchange exchange(From::malloc, kMediumBytes / sizeof(std::uint64_t) / static_cast<std::size_t>(size));
  const std::size_t mappings = mallinfo2().hblks - before;
  for (int round = 0; round < rounds; ++round) exchange.use(round);
  say_how_much_is_huge(exchange);
  if (rank == 0) std::printf("huge: %zu mappings\n", mappings);
}

void use_and_fork(int rounds) {
  Exchange exchange(From::malloc, kBlock);
  for (int round = 0; round < rounds; ++round) {
    exchange.use(round);
    if (round % 6 == 5) write_apart(exchange);
    if (round % 6 == 2) spoil_in_child(exchange, rounds + round);
  }
  say_how_much_is_huge(exchange);
}

void use_and_free(int rounds) {
  constexpr int kBetween = 12;
  constexpr std::size_t kBlocks[] = {kBlock, kBlock, kBlock / 2, kBlock, kBlock + 100'000};
  for (int round = 0; round < rounds;) {
    Exchange exchange(From::malloc, kBlocks[static_cast<std::size_t>(round / kBetween) % std::size(kBlocks)]);
    do {
      exchange.use(round);
    } while (++round % kBetween != 0 && round < rounds);
    if (round >= rounds) say_how_much_is_huge(exchange);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string mode = argc > 2 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 0;
  if (rounds < 1 || size > 8) fail("usage: huge again|allocated|medium|fork|free ROUNDS, on 8 ranks at most");
  if (mode == "again") {
    use_again(From::malloc, rounds);
  } else if (mode == "allocated") {
    use_again(From::mpi, rounds);
  } else if (mode == "medium") {
    use_medium(rounds);
  } else if (mode == "fork") {
    use_and_fork(rounds);
  } else if (mode == "free") {
    use_and_free(rounds);
  } else {
    fail("unknown mode " + mode);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("huge: %s: all right\n", mode.c_str());
  std::fflush(stdout);
  MPI_Finalize();
  return 0;
}
