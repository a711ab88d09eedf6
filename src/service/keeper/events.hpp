// Event loop of a keeper and of `outriggerd dpu`: descriptors, each watched as one of these sources (epoll), and time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/unique_fd.hpp"

namespace outrigger::service {

enum class Source : std::uint32_t {
  clock,  // timeout
  stop,
  leader,
  launcher,
  listener,
  pending_connection,
  rank,
  rank_exit,
  service,
  service_exit,
  service_state,
  neighbour,
  reader,
  other_node,
  dpu_link
};

struct Event {
  Source source = Source::clock;
  std::uint32_t index = 0;  // of the pending connection, rank or service process
};

// Thread rule: one thread.
class Events {
 public:
  using Clock = std::chrono::steady_clock;

  // Tests pass their own clock.
  explicit Events(std::function<Clock::time_point()> now = Clock::now);

  // The clock for all deadlines that wait on these events.
  [[nodiscard]] Clock::time_point now() const { return now_(); }
  // Adds a descriptor or changes how it is watched. False: it cannot be waited for, as regular files cannot.
  bool watch(int fd, Event as, bool writable = false);
  // To be called before `fd` is closed; -1 does nothing.
  void unwatch(int fd);
  // Waits up to `timeout_ms` (-1: for ever). Handling one event may remove the object of a later one in the same batch:
  // check that it exists.
  [[nodiscard]] std::vector<Event> wait(int timeout_ms);

 private:
  std::function<Clock::time_point()> now_;
  UniqueFd epoll_;
};

// Becomes readable when the process ends. Invalid: no such process (ESRCH), or the kernel has no pidfds.
[[nodiscard]] UniqueFd exit_event_of(pid_t pid);

}  // namespace outrigger::service
