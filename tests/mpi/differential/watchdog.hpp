// Ends the program with a list of outstanding operations if there has been no progress for a while.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace differential {

class Watchdog {
 public:
  Watchdog(int rank, int limit_s);
  ~Watchdog();

  // The next action of `thread`; replaces its former one.
  void now(int thread, std::string what, std::vector<std::string> requests);
  // The request at `index` of the list has completed.
  void done(int thread, std::size_t index);
  void advanced() { progress_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Activity {
    std::string what;
    std::vector<std::string> outstanding;  // emptied one by one
  };
  void watch(int limit_s);
  [[noreturn]] void give_up(int limit_s);

  int rank_;
  std::atomic<std::uint64_t> progress_{0};
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::vector<Activity> activities_;
  std::thread thread_;
};

}  // namespace differential
