// Which threads have come since? One that was joined may stay in /proc for a moment, so their number can fall.
#pragma once

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

namespace outrigger {

class NewThreads {
 public:
  // This process has threads, in any state, that it had not when this was made.
  [[nodiscard]] bool are_there() const {
    const std::set<std::string> now = all();
    return !std::ranges::includes(before_, now);
  }

 private:
  static std::set<std::string> all() {
    std::set<std::string> ids;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(task.path().filename());
    return ids;
  }

  std::set<std::string> before_ = all();
};

}  // namespace outrigger
