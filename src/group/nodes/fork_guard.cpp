#include "group/nodes/fork_guard.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <system_error>

namespace outrigger::group {
namespace {

struct Guarded {
  std::mutex lock;
  std::set<int> sockets;
  int null = -1;  // of /dev/null
  bool is_registered = false;
};

// Never destroyed: a process may fork while it ends.
Guarded& guarded() {
  static auto* const one = new Guarded;
  return *one;
}

void before_fork() {
  guarded().lock.lock();
}
void after_fork() {
  guarded().lock.unlock();
}
// The numbers stay in use, as a child may close them with its copy of the group.
void in_child() {
  Guarded& all = guarded();
  for (const int socket : all.sockets) (void)::dup3(all.null, socket, O_CLOEXEC);
  all.lock.unlock();
}

void guard_in_children(int socket) {
  Guarded& all = guarded();
  const std::scoped_lock held(all.lock);
  if (all.null < 0) all.null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (all.null < 0) throw std::system_error(errno, std::generic_category(), "/dev/null");
  if (!all.is_registered) {
    if (const int error = ::pthread_atfork(before_fork, after_fork, in_child); error != 0) {
      throw std::system_error(error, std::generic_category(), "pthread_atfork");
    }
    all.is_registered = true;
  }
  all.sockets.insert(socket);
}

}  // namespace

GuardedFd::GuardedFd(UniqueFd socket) : socket_(std::move(socket)) {
  if (valid()) guard_in_children(get());
}

// Forks wait for the lock, so no child gets the open socket.
void GuardedFd::reset() {
  if (!valid()) return;
  Guarded& all = guarded();
  const std::scoped_lock held(all.lock);
  all.sockets.erase(get());
  socket_.reset();
}

}  // namespace outrigger::group
