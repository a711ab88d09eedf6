// Which threads have come? Those that have been joined stay in /proc for a moment, so a count may fall at any time.
#pragma once

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

namespace outrigger {

class NewThreads {
 public:
  // Of this process, in any state, that were not there when this was made.
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
