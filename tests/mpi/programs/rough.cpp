// Unusual actions of programs on their memory and processes, with offloaded operations on it. Each is a mode; all bytes
// are checked.
//
//   rough protect         buffers that are read-only, and inaccessible between operations
//   rough move            buffers that mremap moves, with others' bytes at their old addresses
//   rough files           buffers in shared and private files, and in memory like /dev/shm's
//   rough undumpable      processes that no other may inspect, from MPI_Init on or from half of the operations on
//   rough many COUNT      this many communicators at once
//   rough huge MIB        a broadcast of one block of this many MiB

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBlock = 48 * kPage;  // bytes for each peer
constexpr int kRounds = 12;

int rank = 0;
int size = 0;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "rough: rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

std::size_t total() {
  return kBlock * static_cast<std::size_t>(size);
}

unsigned char value(int from, int to, int round) {
  return static_cast<unsigned char>(1 + (from * 31 + to * 7 + round) % 255);
}

void fill(unsigned char* send, int round) {
  for (int to = 0; to < size; ++to) {
    std::memset(send + kBlock * static_cast<std::size_t>(to), value(rank, to, round), kBlock);
  }
}

void check(const unsigned char* received, int round) {
  for (int from = 0; from < size; ++from) {
    const unsigned char* block = received + kBlock * static_cast<std::size_t>(from);
    if (*block != value(from, rank, round) || std::memcmp(block, block + 1, kBlock - 1) != 0) fail("wrong bytes");
  }
}

void exchange(const unsigned char* send, unsigned char* receive) {
  MPI_Request request;
  const int count = static_cast<int>(kBlock);
  MPI_Ialltoall(send, count, MPI_BYTE, receive, count, MPI_BYTE, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

unsigned char* mapped(int flags, int fd = -1, off_t offset = 0) {
  void* memory = ::mmap(nullptr, total(), PROT_READ | PROT_WRITE, flags, fd, offset);
  if (memory == MAP_FAILED) fail("no memory");
  return static_cast<unsigned char*>(memory);
}

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

void allow(void* memory, int protection) {
  if (::mprotect(memory, total(), protection) != 0) fail("mprotect");
}

void protect_mode(int) {
  unsigned char* send = mapped(kPrivate);
  unsigned char* receive = mapped(kPrivate);
  for (int round = 0; round < kRounds; ++round) {
    allow(send, PROT_READ | PROT_WRITE);
    allow(receive, PROT_READ | PROT_WRITE);
    fill(send, round);
    allow(send, PROT_READ);
    exchange(send, receive);
    check(receive, round);
    allow(send, PROT_NONE);
    allow(receive, PROT_NONE);
  }
}

void move_mode(int) {
  unsigned char* send = mapped(kPrivate);
  unsigned char* receive = mapped(kPrivate);
  for (int round = 0; round < kRounds; ++round) {
    fill(send, round);
    exchange(send, receive);
    check(receive, round);
    for (unsigned char** buffer : {&send, &receive}) {
      unsigned char* target = mapped(kPrivate);
      unsigned char* before = *buffer;
      // By number: UCX's mremap() lacks MREMAP_FIXED.
      ::syscall(SYS_mremap, before, total(), total(), MREMAP_MAYMOVE | MREMAP_FIXED, target);
      *buffer = target;
      void* other = ::mmap(before, total(), PROT_READ | PROT_WRITE, kPrivate | MAP_FIXED, -1, 0);
      if (other == MAP_FAILED) fail("no memory");
      std::memset(other, 255, total());
    }
  }
}

void files_mode(int) {
  const std::string name = "rough-" + std::to_string(rank);
  const auto bytes = static_cast<off_t>(2 * total());
  const auto offset = static_cast<off_t>(total());
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const int memory = ::memfd_create("rough", 0);
  for (const int fd : {file, memory}) {
    if (fd < 0 || ::ftruncate(fd, bytes) != 0) fail("no file " + name);
    for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
      unsigned char* send = mapped(flags, fd);
      unsigned char* receive = mapped(flags, fd, offset);
      for (int round = 0; round < kRounds; ++round) {
        fill(send, round);
        exchange(send, receive);
        check(receive, round);
      }
      std::vector<unsigned char> in_file(total());
      if (::pread(fd, in_file.data(), total(), offset) != static_cast<ssize_t>(total())) fail("cannot read");
      check(in_file.data(), kRounds - 1);  // private mappings are second, and change nothing there
      ::munmap(send, total());
      ::munmap(receive, total());
    }
    ::close(fd);
  }
  ::unlink(name.c_str());
}

void undumpable_mode(int) {
  std::vector<unsigned char> send(total()), receive(total());
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 2 && ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) fail("prctl");
    fill(send.data(), round);
    exchange(send.data(), receive.data());
    check(receive.data(), round);
  }
}

void many_mode(int count) {
  std::vector<MPI_Comm> comms(static_cast<std::size_t>(count));
  std::vector<MPI_Request> requests(comms.size());
  std::vector<int> sent(comms.size()), received(comms.size() * static_cast<std::size_t>(size), -1);
  for (std::size_t i = 0; i < comms.size(); ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    sent[i] = rank * 100'000 + static_cast<int>(i);
    int* at = received.data() + i * static_cast<std::size_t>(size);
    MPI_Iallgather(&sent[i], 1, MPI_INT, at, 1, MPI_INT, comms[i], &requests[i]);
  }
  MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
  for (std::size_t i = 0; i < received.size(); ++i) {
    const auto from = static_cast<int>(i % static_cast<std::size_t>(size));
    const auto number = static_cast<int>(i / static_cast<std::size_t>(size));
    if (received[i] != from * 100'000 + number) fail("wrong data");
  }
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

void huge_mode(int mib) {
  const std::size_t words = (static_cast<std::size_t>(mib) << 20U) / sizeof(std::uint64_t);
  std::vector<std::uint64_t> block(words);
  if (rank == 0) {
    for (std::size_t i = 0; i < words; ++i) block[i] = i * 2'654'435'761U;
  }
  MPI_Request request;
  MPI_Ibcast(block.data(), static_cast<int>(words), MPI_UINT64_T, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < words; ++i) {
    if (block[i] != i * 2'654'435'761U) fail("wrong data");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(int)>> modes = {
      {"protect", protect_mode},       {"move", move_mode}, {"files", files_mode},
      {"undumpable", undumpable_mode}, {"many", many_mode}, {"huge", huge_mode}};
  const auto mode = modes.find(argc > 1 ? argv[1] : "");
  if (mode == modes.end()) {
    std::fprintf(stderr, "rough: which? See the head of rough.cpp for the modes.\n");
    return 2;
  }
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (mode->first == "undumpable" && number != 0) ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  mode->second(number);
  MPI_Finalize();
  if (rank == 0) std::printf("rough: %s: all right\n", mode->first.c_str());
  return 0;
}
