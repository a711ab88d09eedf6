#include "service/keeper/events.hpp"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <span>
#include <utility>

namespace outrigger::service {

Events::Events(std::function<Clock::time_point()> now) : now_(std::move(now)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

bool Events::watch(int fd, Event as, bool writable) {
  epoll_event event{};
  event.events = writable ? (EPOLLIN | EPOLLOUT) : EPOLLIN;
  event.data.u64 = (static_cast<std::uint64_t>(as.source) << 32) | as.index;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ||
         ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

void Events::unwatch(int fd) {
  if (fd >= 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::vector<Event> Events::wait(int timeout_ms) {
  std::array<epoll_event, 64> ready{};
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout_ms);
  std::vector<Event> events;
  for (const epoll_event& event : std::span(ready).first(count > 0 ? static_cast<std::size_t>(count) : 0)) {
    events.push_back({static_cast<Source>(event.data.u64 >> 32), static_cast<std::uint32_t>(event.data.u64)});
  }
  return events;
}

UniqueFd exit_event_of(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace outrigger::service
