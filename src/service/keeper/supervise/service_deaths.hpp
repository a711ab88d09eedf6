// Counts recent deaths of service processes and decides if they are replaced. Deaths may be chance, so replacements are
// started. After three deaths in the same operation, or six in all, the operation itself is probably the cause:
// replacements run in degraded mode. They finish only open operations, in the simplest way, and nothing more is
// offloaded. If these die as well, the job ends.
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

  static constexpr std::chrono::seconds kCount{60};  // older deaths do not count
  static constexpr std::size_t kMostAtOne = 3;       // in one operation; then degraded mode
  static constexpr std::size_t kMost = 6;            // in any operations; then degraded mode
  static constexpr std::size_t kMostDegraded = 3;    // deaths in degraded mode; then the job ends

  // The process in place `sp` has died after taking `last`. False: it must not be replaced.
  [[nodiscard]] bool note(std::uint32_t sp, const std::optional<OperationId>& last, Clock::time_point now) {
    std::deque<Death>& deaths = deaths_[sp];
    while (!deaths.empty() && now - deaths.front().when > kCount) deaths.pop_front();
    deaths.push_back({now, last, degraded_});
    const auto with = [&](const auto& is_so) { return std::ranges::count_if(deaths, is_so); };
    const auto at_one = with([&](const Death& death) { return death.last == last; });
    const auto degraded = with([](const Death& death) { return death.was_degraded; });
    degraded_ = degraded_ || at_one >= std::ptrdiff_t{kMostAtOne} || deaths.size() >= kMost;
    return degraded <= std::ptrdiff_t{kMostDegraded};
  }
  // Degraded mode: permanent, and for all service processes of the node.
  [[nodiscard]] bool degraded() const { return degraded_; }
  [[nodiscard]] std::size_t of_late(std::uint32_t sp) const { return deaths_.at(sp).size(); }
  // "; 3 have died ...", for the place `sp`.
  [[nodiscard]] std::string how_many(std::uint32_t sp) const {
    return "; " + std::to_string(of_late(sp)) + " have died within " + std::to_string(kCount.count()) +
           " s in its place";
  }

 private:
  struct Death {
    Clock::time_point when;
    std::optional<OperationId> last;
    bool was_degraded = false;
  };

  std::map<std::uint32_t, std::deque<Death>> deaths_;
  bool degraded_ = false;
};

}  // namespace outrigger::service
