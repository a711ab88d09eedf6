#include "service/keeper/supervise/stopped_services.hpp"

#include <algorithm>

namespace outrigger::service {

std::optional<std::uint32_t> StoppedServices::look(ServiceStarter& starter, std::uint32_t services,
                                                   Clock::time_point now) {
  turns_.resize(services, 0);
  if (!any_) last_turn_ = now;
  const bool a_turn_has_passed = now - last_turn_ >= kTurn;
  if (a_turn_has_passed) last_turn_ = now - last_turn_ < 2 * kTurn ? last_turn_ + kTurn : now;
  any_ = false;
  for (std::uint32_t sp = 0; sp < services; ++sp) {
    const bool stopped = starter.is_stopped(sp);
    any_ = any_ || stopped;
    if (!stopped) turns_[sp] = 0;
    if (stopped && a_turn_has_passed) ++turns_[sp];
  }
  const auto longest = std::ranges::max_element(turns_);
  if (longest == turns_.end() || *longest < kTurnsUntilLost) return std::nullopt;
  return static_cast<std::uint32_t>(longest - turns_.begin());
}

}  // namespace outrigger::service
