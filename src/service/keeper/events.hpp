// What a keeper, or `outriggerd dpu`, waits for: descriptors, each watched as one of these sources (epoll), and time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/unique_fd.hpp"

namespace outrigger::service {

enum class Source : std::uint32_t {
  clock,  // nothing but time has passed
  stop,
  leader,
  launcher,
  listener,
  stranger,
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
  std::uint32_t index = 0;  // of the stranger, rank or service process
};

// Thread rule: one thread.
class Events {
 public:
  using Clock = std::chrono::steady_clock;

  // Tests have a clock of their own.
  explicit Events(std::function<Clock::time_point()> now = Clock::now);

  // By this clock everything that waits for these events measures time.
  [[nodiscard]] Clock::time_point now() const { return now_(); }
  // From now on, or from now on differently. False: it cannot be waited for, as regular files cannot.
  bool watch(int fd, Event as, bool writable = false);
  // To be called before `fd` is closed; -1 is nothing.
  void unwatch(int fd);
  // Waits up to `timeout_ms` (-1: for ever). What an event names may have gone while an earlier one of the same batch
  // was handled; who handles one looks first.
  [[nodiscard]] std::vector<Event> wait(int timeout_ms);

 private:
  std::function<Clock::time_point()> now_;
  UniqueFd epoll_;
};

// Becomes readable when the process ends. Invalid: there is none (ESRCH), or the kernel does not tell.
[[nodiscard]] UniqueFd exit_event_of(pid_t pid);

}  // namespace outrigger::service
