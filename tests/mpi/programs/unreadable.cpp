// Buffers that other processes cannot read or write by system calls, or that are unusual in another way. All bytes are
// checked. Each mode is a kind of memory:
//
//   unreadable secret       memfd_secret: no other process can read it; stands for memory of devices
//   unreadable mixed        one page in the middle of an ordinary buffer is such memory
//   unreadable swapped      an ordinary buffer that becomes such memory, and ordinary again, at the same address
//   unreadable write-only   received and sent in pages without the permission to read, which processors do not have
//   unreadable handled      pages that the program's handler of SIGSEGV makes accessible on a fault
//   unreadable tracked      receive buffers whose first write of each round goes to such a handler
//   unreadable lazy         pages from userfaultfd, for faults of the program and not of the kernel
//   unreadable file         sent from a file that may only be read, received in one that is shared
//   unreadable huge         huge pages of the system's pool
//   unreadable sysv         a System V segment
//
// Exits with 77 and a line with the reason if this machine has no such memory.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <mpi.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kRounds = 4;
constexpr int kSkipped = 77;
constexpr std::array<std::size_t, 3> kBlocks{96, 3 * kPage, 32 * kPage};  // bytes for each peer
constexpr std::size_t kLargest = 32 * kPage;

int rank = 0;
int size = 0;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "unreadable: rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// Called by all ranks, with the same result.
[[noreturn]] void skip(const std::string& why) {
  if (rank == 0) std::printf("unreadable: skipped: %s\n", why.c_str());
  std::fflush(stdout);
  MPI_Finalize();
  std::exit(kSkipped);
}

std::size_t room() {
  return kLargest * static_cast<std::size_t>(size);
}

struct Buffers {
  unsigned char* send = nullptr;
  unsigned char* receive = nullptr;
};

unsigned char value(int from, int to, int round) {
  return static_cast<unsigned char>(1 + (from * 31 + to * 7 + round) % 255);
}

void check(const unsigned char* block, std::size_t bytes, unsigned char expected, const char* where) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (block[i] != expected) fail(std::string("wrong byte ") + std::to_string(i) + " after " + where);
  }
}

// Actions of a mode around each operation.
struct Steps {
  std::function<void(int)> before_fill = [](int) {};
  std::function<void(int)> before_post = [](int) {};
  bool fills = true;
  bool one_way = false;  // nothing is sent from the receive buffer
};

// Several collectives from and to the same memory.
void exchange(const Buffers& buffers, std::size_t block, int round, const Steps& steps) {
  const int count = static_cast<int>(block);
  const auto begin = [&](auto fill) {
    steps.before_fill(round);
    if (steps.fills) fill();
    steps.before_post(round);
  };
  const auto wait = [](MPI_Request request) {
    if (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS) fail("an operation ended with an error");
  };
  MPI_Request request;
  begin([&] {
    for (int to = 0; to < size; ++to) {
      std::memset(buffers.send + block * static_cast<std::size_t>(to), value(rank, to, round), block);
    }
  });
  MPI_Ialltoall(buffers.send, count, MPI_BYTE, buffers.receive, count, MPI_BYTE, MPI_COMM_WORLD, &request);
  wait(request);
  for (int from = 0; from < size; ++from) {
    const unsigned char expected = steps.fills ? value(from, rank, round) : value(0, 0, 0);
    check(buffers.receive + block * static_cast<std::size_t>(from), block, expected, "MPI_Ialltoall");
  }
  if (!steps.fills) return;
  begin([&] { std::memset(buffers.send, value(rank, 99, round), block); });
  MPI_Iallgather(buffers.send, count, MPI_BYTE, buffers.receive, count, MPI_BYTE, MPI_COMM_WORLD, &request);
  wait(request);
  for (int from = 0; from < size; ++from) {
    check(buffers.receive + block * static_cast<std::size_t>(from), block, value(from, 99, round), "MPI_Iallgather");
  }
  begin([&] { std::memset(buffers.send, rank + 1, block); });
  MPI_Iallreduce(buffers.send, buffers.receive, count, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD, &request);
  wait(request);
  check(buffers.receive, block, static_cast<unsigned char>(size * (size + 1) / 2), "MPI_Iallreduce");
  if (steps.one_way) return;
  const int root = round % size;
  begin([&] { std::memset(buffers.receive, rank == root ? value(root, 98, round) : 0, block); });
  MPI_Ibcast(buffers.receive, count, MPI_BYTE, root, MPI_COMM_WORLD, &request);
  wait(request);
  check(buffers.receive, block, value(root, 98, round), "MPI_Ibcast");
  begin([&] {
    std::memset(buffers.receive, 0, block * static_cast<std::size_t>(size));
    std::memset(buffers.receive + block * static_cast<std::size_t>(rank), value(rank, 97, round), block);
  });
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, buffers.receive, count, MPI_BYTE, MPI_COMM_WORLD, &request);
  wait(request);
  for (int from = 0; from < size; ++from) {
    check(buffers.receive + block * static_cast<std::size_t>(from), block, value(from, 97, round), "an in-place one");
  }
}

void exchange_all(const Buffers& buffers, const Steps& steps = {}) {
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t block : kBlocks) exchange(buffers, block, round, steps);
  }
}

unsigned char* map_at(void* place, std::size_t bytes, int protection, int flags, int fd = -1) {
  void* memory = ::mmap(place, bytes, protection, flags | (place == nullptr ? 0 : MAP_FIXED), fd, 0);
  if (memory == MAP_FAILED) fail(std::string("mmap: ") + std::strerror(errno));
  return static_cast<unsigned char*>(memory);
}

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

unsigned char* ordinary(void* place = nullptr, std::size_t bytes = 0) {
  return map_at(place, bytes != 0 ? bytes : room(), kReadWrite, kPrivate);
}

unsigned char* secret(void* place = nullptr, std::size_t bytes = 0) {
  if (bytes == 0) bytes = room();
  const int fd = static_cast<int>(::syscall(SYS_memfd_secret, 0));
  if (fd < 0) skip(std::string("memfd_secret: ") + std::strerror(errno) + " (boot with secretmem.enable=1)");
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  void* memory = ::mmap(place, bytes, kReadWrite, MAP_SHARED | (place == nullptr ? 0 : MAP_FIXED), fd, 0);
  if (memory == MAP_FAILED) skip(std::string("no secret memory: ") + std::strerror(errno) + " (ulimit -l)");
  ::close(fd);
  return static_cast<unsigned char*>(memory);
}

void secret_mode() {
  exchange_all({secret(), secret()});
  exchange_all({secret(), ordinary()});
  exchange_all({ordinary(), secret()});
}

void mixed_mode() {
  const Buffers buffers{ordinary(), ordinary()};
  for (unsigned char* buffer : {buffers.send, buffers.receive}) secret(buffer + room() / 2 + kPage, kPage);
  exchange_all(buffers);
}

void swapped_mode() {
  const Buffers buffers{ordinary(), ordinary()};
  for (int turn = 0; turn < 3; ++turn) {
    exchange_all(buffers);
    for (unsigned char* buffer : {buffers.send, buffers.receive}) turn % 2 == 0 ? secret(buffer) : ordinary(buffer);
  }
}

void write_only_mode() {
  const Buffers buffers{ordinary(), ordinary()};
  ::mprotect(buffers.send, room(), PROT_WRITE);
  ::mprotect(buffers.receive, room(), PROT_WRITE);
  exchange_all(buffers);
}

// For the handler, by address.
std::array<unsigned char*, 2> watched{};
volatile sig_atomic_t faults = 0;

void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  auto* address = static_cast<unsigned char*>(info->si_addr);
  for (unsigned char* buffer : watched) {
    if (buffer == nullptr || address < buffer || address >= buffer + room()) continue;
    faults = faults + 1;
    ::mprotect(buffer + static_cast<std::size_t>(address - buffer) / kPage * kPage, kPage, kReadWrite);
    return;
  }
  ::signal(SIGSEGV, SIG_DFL);
}

void watch(const Buffers& buffers) {
  watched = {buffers.send, buffers.receive};
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
}

void handled_mode() {
  const Buffers buffers{ordinary(), ordinary()};
  watch(buffers);
  Steps steps;
  steps.before_post = [&](int) {
    ::mprotect(buffers.send, room(), PROT_NONE);
    ::mprotect(buffers.receive, room(), PROT_NONE);
  };
  exchange_all(buffers, steps);
  if (faults == 0) fail("no page has been touched");
}

void tracked_mode() {
  const Buffers buffers{ordinary(), ordinary()};
  watch(buffers);
  Steps steps;
  steps.before_post = [&](int) { ::mprotect(buffers.receive, room(), PROT_READ); };
  exchange_all(buffers, steps);
  if (faults == 0) fail("no page has been written");
}

// A thread that provides every missing page.
void give_pages(int faults_of) {
  std::vector<unsigned char> page(kPage);
  uffd_msg message{};
  while (::read(faults_of, &message, sizeof(message)) == static_cast<ssize_t>(sizeof(message))) {
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    uffdio_copy copy{};
    copy.dst = message.arg.pagefault.address / kPage * kPage;
    copy.src = reinterpret_cast<std::uint64_t>(page.data());
    copy.len = kPage;
    ::ioctl(faults_of, UFFDIO_COPY, &copy);
  }
}

void lazy_mode() {
  const int given = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  uffdio_api api{};
  api.api = UFFD_API;
  if (given < 0 || ::ioctl(given, UFFDIO_API, &api) != 0) skip(std::string("userfaultfd: ") + std::strerror(errno));
  std::thread(give_pages, given).detach();
  const Buffers buffers{ordinary(), ordinary()};
  for (unsigned char* buffer : {buffers.send, buffers.receive}) {
    uffdio_register range{};
    range.range = {reinterpret_cast<std::uint64_t>(buffer), room()};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    if (::ioctl(given, UFFDIO_REGISTER, &range) != 0) fail("UFFDIO_REGISTER");
  }
  Steps steps;
  steps.before_fill = [&](int) { ::madvise(buffers.send, room(), MADV_DONTNEED); };
  steps.before_post = [&](int) { ::madvise(buffers.receive, room(), MADV_DONTNEED); };
  steps.one_way = true;
  exchange_all(buffers, steps);
}

void file_mode() {
  const std::string name = "unreadable-" + std::to_string(rank);
  const int writable = ::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const std::vector<unsigned char> contents(room(), value(0, 0, 0));
  if (writable < 0 || ::write(writable, contents.data(), room()) != static_cast<ssize_t>(room())) fail("no file");
  const int fd = ::open(name.c_str(), O_RDONLY);
  ::close(writable);
  const int other = ::memfd_create("unreadable", 0);
  if (::ftruncate(other, static_cast<off_t>(room())) != 0) fail("ftruncate");
  unsigned char* receive = map_at(nullptr, room(), kReadWrite, MAP_SHARED, other);
  Steps steps;
  steps.fills = false;
  for (const int flags : {MAP_SHARED, MAP_PRIVATE})
    exchange_all({map_at(nullptr, room(), PROT_READ, flags, fd), receive}, steps);
  ::unlink(name.c_str());
}

void huge_mode() {
  constexpr std::size_t kHugePage = 2U << 20;
  const std::size_t bytes = (room() + kHugePage - 1) / kHugePage * kHugePage;
  Buffers buffers;
  for (unsigned char** buffer : {&buffers.send, &buffers.receive}) {
    void* memory = ::mmap(nullptr, bytes, kReadWrite, kPrivate | MAP_HUGETLB, -1, 0);
    int here = memory == MAP_FAILED ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &here, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (here == 0) skip("no huge pages left in the system's pool (vm.nr_hugepages)");
    *buffer = static_cast<unsigned char*>(memory);
  }
  exchange_all(buffers);
}

void sysv_mode() {
  Buffers buffers;
  for (unsigned char** buffer : {&buffers.send, &buffers.receive}) {
    const int segment = ::shmget(IPC_PRIVATE, room(), 0600 | IPC_CREAT);
    void* memory = segment < 0 ? nullptr : ::shmat(segment, nullptr, 0);
    if (segment < 0 || memory == reinterpret_cast<void*>(-1)) fail("no System V segment");
    ::shmctl(segment, IPC_RMID, nullptr);
    *buffer = static_cast<unsigned char*>(memory);
  }
  exchange_all(buffers);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> modes = {
      {"secret", secret_mode},   {"mixed", mixed_mode},     {"swapped", swapped_mode}, {"write-only", write_only_mode},
      {"handled", handled_mode}, {"tracked", tracked_mode}, {"lazy", lazy_mode},       {"file", file_mode},
      {"huge", huge_mode},       {"sysv", sysv_mode}};
  const auto mode = modes.find(argc > 1 ? argv[1] : "");
  if (mode == modes.end()) {
    std::fprintf(stderr, "unreadable: which? See the head of unreadable.cpp for the modes.\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  mode->second();
  if (rank == 0) std::printf("unreadable: all right\n");
  MPI_Finalize();
  return 0;
}
