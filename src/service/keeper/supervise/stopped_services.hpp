// Service processes that a signal has stopped (SIGSTOP). Their node makes no progress, and other nodes may have nothing
// open that would show it. Stops by a debugger do not count.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "service/keeper/supervise/starter.hpp"

namespace outrigger::service {

class StoppedServices {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kTurn{1000};
  static constexpr std::uint32_t kTurnsUntilLost = 12;

  // To be called when a child's state may have changed, and every kTurn while any() is true. Returns one that was
  // stopped for too long. Counts turns, not time, because a whole job may be stopped for a while.
  [[nodiscard]] std::optional<std::uint32_t> look(ServiceStarter& starter, std::uint32_t services,
                                                  Clock::time_point now);
  [[nodiscard]] bool any() const { return any_; }

 private:
  std::vector<std::uint32_t> turns_;  // for which each has been stopped
  Clock::time_point last_turn_;
  bool any_ = false;
};

}  // namespace outrigger::service
