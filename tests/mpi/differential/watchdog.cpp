#include "watchdog.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace differential {

Watchdog::Watchdog(int rank, int limit_s) : rank_(rank), activities_(8), thread_([this, limit_s] { watch(limit_s); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void Watchdog::now(int thread, std::string what, std::vector<std::string> requests) {
  const std::lock_guard lock(mutex_);
  activities_[static_cast<std::size_t>(thread)] = {std::move(what), std::move(requests)};
  advanced();
}

void Watchdog::done(int thread, std::size_t index) {
  const std::lock_guard lock(mutex_);
  activities_[static_cast<std::size_t>(thread)].outstanding[index].clear();
  advanced();
}

void Watchdog::watch(int limit_s) {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = progress_;
  while (!stop_) {
    const bool stopped = stopping_.wait_for(lock, std::chrono::seconds(limit_s), [this] { return stop_; });
    if (!stopped && progress_ == seen) give_up(limit_s);
    seen = progress_;
  }
}

void Watchdog::give_up(int limit_s) {
  std::fprintf(stderr, "differential: rank %d: nothing advanced for %d s\n", rank_, limit_s);
  for (const Activity& activity : activities_) {
    if (activity.what.empty()) continue;
    std::fprintf(stderr, "  rank %d: %s\n", rank_, activity.what.c_str());
    for (const std::string& request : activity.outstanding) {
      if (!request.empty()) std::fprintf(stderr, "  rank %d:   outstanding: %s\n", rank_, request.c_str());
    }
  }
  std::fflush(stderr);
  _exit(3);
}

}  // namespace differential
