// Ends a job that cannot continue. The reason is printed for people and written to the ranks' segments, so that waiting
// ranks end by themselves. Computing ranks are ended a little later.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "service/keeper/keeper_config.hpp"
#include "service/keeper/ranks/local_ranks.hpp"

namespace outrigger::service {

class JobEnd {
 public:
  using Clock = std::chrono::steady_clock;

  // All must outlive this. `leader`: the exit event of the node leader.
  JobEnd(const KeeperConfig& config, const LocalRanks& ranks, const UniqueFd& leader)
      : config_(config), ranks_(ranks), leader_(leader) {}

  void begin(const std::string& text, Clock::time_point now);
  // The job continues, but people should know.
  void warn(const std::string& text) const;
  [[nodiscard]] Clock::time_point next_step() const;
  // Signals the remaining ranks when it is time. True: stop waiting for them.
  [[nodiscard]] bool advance(Clock::time_point now);

 private:
  enum class After { job_ends, job_goes_on };
  void print_for_people(const std::string& text, After after) const;
  void signal_ranks(int signal) const;

  const KeeperConfig& config_;
  const LocalRanks& ranks_;
  const UniqueFd& leader_;
  Clock::time_point began_;
  std::size_t steps_taken_ = 0;
};

}  // namespace outrigger::service
