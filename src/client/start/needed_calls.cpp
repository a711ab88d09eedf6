#include "client/start/needed_calls.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/refusal.hpp"
#include "base/unique_fd.hpp"

namespace outrigger::client {
namespace {

constexpr std::size_t kPageBytes = 4096;

bool refused(long result) {
  return result < 0 && is_refusal(errno);
}

// The first refused call of shared memory's; nullptr if there is none.
const char* refused_of_shared_memory() {
  const UniqueFd memory(::memfd_create("outrigger-try", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (refused(memory.get())) return "memfd_create";
  if (refused(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK))) return "fcntl(F_ADD_SEALS)";
  if (refused(::fcntl(memory.get(), F_GET_SEALS))) return "fcntl(F_GET_SEALS)";
  if (refused(::ftruncate(memory.get(), static_cast<off_t>(kPageBytes)))) return "ftruncate";
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, memory.get(), 0);
  if (page == MAP_FAILED) return nullptr;  // the later user reports it
  const bool inherits = refused(::madvise(page, kPageBytes, MADV_DONTFORK));
  ::munmap(page, kPageBytes);
  return inherits ? "madvise(MADV_DONTFORK)" : nullptr;
}

const char* refused_of_waiting() {
  const UniqueFd doorbell(::eventfd(0, EFD_CLOEXEC));
  if (refused(doorbell.get())) return "eventfd";
  const UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
  if (refused(events.get())) return "epoll_create1";
  epoll_event event{};
  if (refused(::epoll_ctl(events.get(), EPOLL_CTL_ADD, doorbell.get(), &event))) return "epoll_ctl";
  return refused(::epoll_wait(events.get(), &event, 1, 0)) ? "epoll_wait" : nullptr;
}

const char* refused_of_sockets() {
  std::array<int, 2> ends{-1, -1};
  if (refused(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()))) return "socketpair";
  const UniqueFd first(ends[0]);
  const UniqueFd second(ends[1]);
  return refused(::accept4(-1, nullptr, nullptr, SOCK_CLOEXEC)) ? "accept4" : nullptr;
}

}  // namespace

Status check_needed_calls() {
  for (const auto& refused_of : {refused_of_shared_memory, refused_of_waiting, refused_of_sockets}) {
    if (const char* call = refused_of()) {
      return Error{std::string("the system refuses ") + call +
                   ", which service processes need: " + std::strerror(errno)};
    }
  }
  return Done{};
}

}  // namespace outrigger::client
