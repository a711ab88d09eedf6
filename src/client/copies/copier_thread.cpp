#include "client/copies/copier_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "base/cross_memory.hpp"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

namespace outrigger::client {
namespace {

bool bind_to(std::span<const int> cpus) {
  std::array<cpu_set_t, 8> set{};  // more cores than one cpu_set_t has room for
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), sizeof(set), set.data());
  return ::sched_setaffinity(0, sizeof(set), set.data()) == 0;
}

// A filter may forbid cross-memory attach to this process.
bool may_attach() {
  std::uint64_t from = 1;
  std::uint64_t to = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(&from);
  return read_cross_memory(::getpid(), address, std::as_writable_bytes(std::span(&to, 1))) == 0 && to == 1;
}

}  // namespace

// First an own, empty table of descriptors: a shared one would slow down every read() and write() of a single-threaded
// program. Then the core: a copier must not run on the rank's core.
bool settle_as_copier(std::span<const int> cpus) {
  ::pthread_setname_np(::pthread_self(), "outrigger-copy");
  static_cast<void>(::syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE));  // only slower without it
  return bind_to(cpus) && may_attach();
}

}  // namespace outrigger::client
