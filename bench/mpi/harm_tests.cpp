#include "harm_tests.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "fail.h"

extern char** environ;

namespace harm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPageBytes = 4096;
constexpr int kChildren = 16;

class Timer {
 public:
  // Million `things` per second since this timer was made.
  [[nodiscard]] double millions(double things) const {
    return 1e-6 * things / std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  Clock::time_point start_ = Clock::now();
};

double copy_rate(Arrays& arrays) {
  const double* from = arrays.a.data();
  double* to = arrays.c.data();
  const std::size_t count = arrays.a.size();
  const Timer timer;
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
  return 1e-3 * timer.millions(2.0 * sizeof(double) * static_cast<double>(count));
}

double triad_rate(Arrays& arrays) {
  const double* b = arrays.b.data();
  const double* c = arrays.c.data();
  double* a = arrays.a.data();
  const std::size_t count = arrays.a.size();
  const Timer timer;
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + 0.5 * c[i];
  return 1e-3 * timer.millions(3.0 * sizeof(double) * static_cast<double>(count));
}

// Random reads and writes in an array; no address depends on data that was read.
double random_rate(Arrays& arrays) {
  constexpr int kUpdates = 1 << 20;
  double* table = arrays.b.data();
  const std::uint64_t count = arrays.b.size();
  std::uint64_t state = 88172645463325252ULL;
  const Timer timer;
  for (int i = 0; i < kUpdates; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    table[state % count] += 1.0;
  }
  return timer.millions(kUpdates);
}

std::size_t bytes_of(const Arrays& arrays) {
  return arrays.a.size() * sizeof(double);
}

double pages_in(std::size_t bytes) {
  return static_cast<double>(bytes) / kPageBytes;
}

void touch(void* memory, std::size_t bytes) {
  auto* words = static_cast<volatile char*>(memory);
  for (std::size_t at = 0; at < bytes; at += kPageBytes) words[at] = 1;
}

void* map_or_fail(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for %zu bytes", bytes);
  return memory;
}

double map_touch_rate(Arrays& arrays) {
  const std::size_t bytes = bytes_of(arrays);
  const Timer timer;
  void* memory = map_or_fail(bytes);
  touch(memory, bytes);
  const double rate = timer.millions(pages_in(bytes));
  ::munmap(memory, bytes);
  return rate;
}

double unmap_rate(Arrays& arrays) {
  const std::size_t bytes = bytes_of(arrays);
  void* memory = map_or_fail(bytes);
  touch(memory, bytes);
  const Timer timer;
  ::munmap(memory, bytes);
  return timer.millions(pages_in(bytes));
}

double malloc_touch_rate(Arrays& arrays) {
  const std::size_t bytes = bytes_of(arrays);
  const Timer timer;
  void* memory = allocate_or_fail(bytes);
  touch(memory, bytes);
  const double rate = timer.millions(pages_in(bytes));
  std::free(memory);
  return rate;
}

double free_rate(Arrays& arrays) {
  const std::size_t bytes = bytes_of(arrays);
  void* memory = allocate_or_fail(bytes);
  touch(memory, bytes);
  const Timer timer;
  std::free(memory);
  return timer.millions(pages_in(bytes));
}

// Pieces of 16 bytes to 4 KiB, 1000 at a time, freed in another order.
double small_rate(Arrays&) {
  constexpr int kRounds = 100;
  constexpr std::size_t kPieces = 1000;
  std::array<void*, kPieces> pieces{};
  const Timer timer;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kPieces; ++i) {
      pieces[i] = allocate_or_fail(16 + 16 * (i * 37 % 256));
      *static_cast<volatile char*>(pieces[i]) = 1;
    }
    for (std::size_t i = 0; i < kPieces; ++i) std::free(pieces[i * 7 % kPieces]);
  }
  return timer.millions(static_cast<double>(kRounds) * kPieces);
}

void wait_for(pid_t child) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) fail("a child process could not do its work");
}

double fork_rate(Arrays&) {
  const Timer timer;
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    wait_for(child);
  }
  return 1e6 * timer.millions(kChildren);
}

double spawn_rate(Arrays&) {
  std::array<char, 5> name{"true"};
  std::array<char*, 2> arguments{name.data(), nullptr};
  const Timer timer;
  for (int i = 0; i < kChildren; ++i) {
    pid_t child = -1;
    if (::posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments.data(), environ) != 0) child = -1;
    wait_for(child);
  }
  return 1e6 * timer.millions(kChildren);
}

constexpr std::array kTests{
    Test{"copy", "GB/s", copy_rate},
    Test{"triad", "GB/s", triad_rate},
    Test{"random", "M updates/s", random_rate},
    Test{"touch_mmap", "M pages/s", map_touch_rate},
    Test{"munmap", "M pages/s", unmap_rate},
    Test{"touch_malloc", "M pages/s", malloc_touch_rate},
    Test{"free", "M pages/s", free_rate},
    Test{"small", "M pieces/s", small_rate},
    Test{"fork", "/s", fork_rate},
    Test{"spawn", "/s", spawn_rate},
};

}  // namespace

std::span<const Test> tests() {
  return kTests;
}

}  // namespace harm
