// The service processes of a simulated job: real engines that take what comes to them at moments of the simulator's
// choice, and die and come back.
#pragma once

#include <functional>

#include "sim/job_state.hpp"

namespace outrigger::sim {

class ServiceProcesses {
 public:
  // `posted_again`: what a rank posts in this slot, for a replay.
  using Posted = std::function<engine::PostedOperation(WorldRank rank, std::size_t slot)>;
  ServiceProcesses(JobState& job, Posted posted_again) : job_(job), posted_(std::move(posted_again)) {}

  void start_all();
  // Something for its engine; lost where it is dead.
  void tell(Service& service, std::function<void(engine::Engine&)> what);
  // Its engine has to run.
  void wake(Service& service);
  void arrived(SpId from, SpId to, std::vector<std::byte> message);
  // As often and whenever the faults have it.
  void schedule_crashes();

 private:
  void start(Service& service);
  void step(Service& service);
  void crash(Service& service);
  void restart(Service& service);
  void reattach(WorldRank rank, std::uint32_t epoch);

  JobState& job_;
  Posted posted_;
};

}  // namespace outrigger::sim
