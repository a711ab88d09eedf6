#include "group/nodes/fork_guard.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <system_error>

namespace outrigger::group {
namespace {

struct Guarded {
  std::mutex lock;
  std::set<int> sockets;
  bool is_registered = false;
};

std::atomic<std::uint32_t> generation{0};  // of forks

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
// A child never destroys its copies of the groups.
void in_child() {
  Guarded& all = guarded();
  generation.fetch_add(1, std::memory_order_relaxed);
  for (const int socket : all.sockets) (void)::close(socket);
  all.sockets.clear();
  all.lock.unlock();
}

// With the lock.
void watch_forks(Guarded& all) {
  if (all.is_registered) return;
  if (const int error = ::pthread_atfork(before_fork, after_fork, in_child); error != 0) {
    throw std::system_error(error, std::generic_category(), "pthread_atfork");
  }
  all.is_registered = true;
}

}  // namespace

GuardedFd::GuardedFd(UniqueFd socket) : socket_(std::move(socket)) {
  if (!valid()) return;
  Guarded& all = guarded();
  const std::scoped_lock held(all.lock);
  watch_forks(all);
  all.sockets.insert(get());
}

// Forks wait for the lock, so no child gets the open socket.
void GuardedFd::reset() {
  if (!valid()) return;
  Guarded& all = guarded();
  const std::scoped_lock held(all.lock);
  all.sockets.erase(get());
  socket_.reset();
}

OwnProcess::OwnProcess() : generation_(generation.load(std::memory_order_relaxed)) {
  Guarded& all = guarded();
  const std::scoped_lock held(all.lock);
  watch_forks(all);
}

bool OwnProcess::is_this() const {
  return generation.load(std::memory_order_relaxed) == generation_;
}

}  // namespace outrigger::group
