// The service processes of a simulated job: real engines that handle their input at random times, crash and restart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/job_state.hpp"

namespace outrigger::sim {

class ServiceProcesses {
 public:
  // Returns a rank's post in this slot, for a replay.
  using Posted = std::function<engine::PostedOperation(WorldRank rank, std::size_t slot)>;
  ServiceProcesses(JobState& job, Posted posted_again) : job_(job), posted_(std::move(posted_again)) {}

  void start_all();
  // Input for its engine; lost if it is dead.
  void tell(Service& service, std::function<void(engine::Engine&)> what);
  // Schedules a run of its engine.
  void wake(Service& service);
  void arrived(SpId from, SpId to, std::vector<std::byte> message);
  // In a quiet job, all look for operations that have waited for too long. False: it would be of no use.
  [[nodiscard]] bool look_for_overdue();
  // Random times and number, by the fault options.
  void schedule_crashes();

 private:
  void start(Service& service);
  void step(Service& service);
  void crash(Service& service);
  void restart(Service& service);
  void reattach(WorldRank rank, std::uint32_t epoch);

  JobState& job_;
  Posted posted_;
  std::optional<std::uint64_t> looked_after_;  // completions when they looked the last time
};

}  // namespace outrigger::sim
