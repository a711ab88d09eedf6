// The ranks of a simulated job: they fill their buffers with a pattern, post their steps in order at random times,
// reuse their buffers as soon as an operation has ended, and free communicators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/job_state.hpp"

namespace outrigger::sim {

class Programs {
 public:
  // Gives something to a service process's engine.
  using Tell = std::function<void(Service& service, std::function<void(engine::Engine&)> what)>;
  Programs(JobState& job, Tell tell) : job_(job), tell_(std::move(tell)) {}

  // Schedules the rank's next step at a random time, or when the job is quiet.
  void schedule_post(WorldRank rank);
  // The slot's content for the service process.
  [[nodiscard]] engine::PostedOperation posted(WorldRank rank, std::size_t index) const;
  // The rank has seen the operation's end.
  void completed(WorldRank rank, Slot& slot);
  // Ranks whose processes will die: random times and number, by the fault options.
  void schedule_losses();
  // In a quiet job, one absent rank continues. False: there is none.
  [[nodiscard]] bool recall_absent();

 private:
  void post_next(WorldRank rank);
  [[nodiscard]] std::size_t make_slot(WorldRank rank, const Step& step);
  [[nodiscard]] engine::BlockLayout make_layout(WorldRank rank, const OperationPlan& plan, GroupRank me, bool sends,
                                                std::uint32_t& buffer);
  [[nodiscard]] std::byte pattern(const Slot& slot, std::size_t source, std::size_t destination,
                                  std::uint64_t index) const;
  void fill(const Slot& slot, WorldRank rank);
  // A rank's contribution to a reduction, and the expected result, added in the order of group ranks.
  [[nodiscard]] std::vector<std::byte> contribution(const Slot& slot, std::size_t source) const;
  [[nodiscard]] const std::vector<std::byte>& reduced(const Slot& slot);
  void free_group(WorldRank rank, std::uint32_t group);
  void lose(WorldRank rank);

  JobState& job_;
  Tell tell_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::size_t>, std::vector<std::byte>> reduced_;
};

}  // namespace outrigger::sim
