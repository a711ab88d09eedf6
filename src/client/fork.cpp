// fork(): a child must not talk to the keeper or the service processes, and must not change its parent's memory.
// exit(): copies must not touch memory that destructors give back.
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "client/memory/program_memory.hpp"
#include "client/rank_endpoint.hpp"

namespace outrigger::client {
namespace {

struct Watched {
  std::mutex mutex;
  std::vector<RankEndpoint*> endpoints;
};

// Never destroyed: a program may fork while it exits.
Watched& watched() {
  static auto* const instance = new Watched;
  return *instance;
}

// All locks are held while the process is copied, so that the child finds tables in order and locks that it may unlock.
void before_fork() {
  watched().mutex.lock();
  for (RankEndpoint* endpoint : watched().endpoints) endpoint->before_fork();
  ProgramMemory::of_process().before_fork();  // what operations use is known now
}

void after_fork_in_parent() {
  ProgramMemory::of_process().after_fork_in_parent();
  for (RankEndpoint* endpoint : watched().endpoints) endpoint->after_fork_in_parent();
  watched().mutex.unlock();
}

void after_fork_in_child() {
  ProgramMemory::of_process().after_fork_in_child();
  for (RankEndpoint* endpoint : watched().endpoints) endpoint->after_fork_in_child();
  watched().endpoints.clear();  // the child's own children inherit ordinary private memory
  watched().mutex.unlock();
}

// Runs before the destructors of what was there when the first client attached. Called from a signal handler it may
// find the lock taken by the thread that it interrupted.
void at_exit() {
  const std::unique_lock lock(watched().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (RankEndpoint* endpoint : watched().endpoints) endpoint->lending().stop();
}

}  // namespace

void watch_forks(RankEndpoint& endpoint) {
  static const int registered =
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) | std::atexit(at_exit);
  static_cast<void>(registered);
  const std::lock_guard lock(watched().mutex);
  watched().endpoints.push_back(&endpoint);
}

void unwatch_forks(RankEndpoint& endpoint) {
  const std::lock_guard lock(watched().mutex);
  std::erase(watched().endpoints, &endpoint);
}

}  // namespace outrigger::client
