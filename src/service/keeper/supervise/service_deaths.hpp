// How often those in the place of one service process have died of late, and what follows: others take their places as
// long as it may be chance. What kills too many would kill others, too: an operation that three have died at, or
// whatever has killed six. The next ones do only what is open, in the simplest way, and nothing more is offloaded.
// Where these die as well, the job has to end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "protocol/ids.hpp"

namespace outrigger::service {

class ServiceDeaths {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::seconds kCount{60};  // for so long
  static constexpr std::size_t kMostAtOne = 3;       // of these, the last one is followed by a careful one
  static constexpr std::size_t kMost = 6;            // the same, of those at any operations
  static constexpr std::size_t kMostCareful = 3;     // careful ones that are followed by another one

  // The one in place `sp` has died, after it had taken `last`. False: no other one may take its place.
  [[nodiscard]] bool note(std::uint32_t sp, const std::optional<OperationId>& last, Clock::time_point now) {
    std::deque<Death>& deaths = deaths_[sp];
    while (!deaths.empty() && now - deaths.front().when > kCount) deaths.pop_front();
    deaths.push_back({now, last, careful_});
    const auto with = [&](const auto& is_so) { return std::ranges::count_if(deaths, is_so); };
    const auto at_one = with([&](const Death& death) { return death.last == last; });
    const auto careful = with([](const Death& death) { return death.was_careful; });
    careful_ = careful_ || at_one >= std::ptrdiff_t{kMostAtOne} || deaths.size() >= kMost;
    return careful <= std::ptrdiff_t{kMostCareful};
  }
  // From now on, for good, all of the node.
  [[nodiscard]] bool careful() const { return careful_; }
  [[nodiscard]] std::size_t of_late(std::uint32_t sp) const { return deaths_.at(sp).size(); }
  // "; 3 have died ...", of those in that place.
  [[nodiscard]] std::string how_many(std::uint32_t sp) const {
    return "; " + std::to_string(of_late(sp)) + " have died within " + std::to_string(kCount.count()) +
           " s in its place";
  }

 private:
  struct Death {
    Clock::time_point when;
    std::optional<OperationId> last;
    bool was_careful = false;
  };

  std::map<std::uint32_t, std::deque<Death>> deaths_;
  bool careful_ = false;
};

}  // namespace outrigger::service
