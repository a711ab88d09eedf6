// Detects that others use this service process's core, and then votes that nothing be offloaded (steer/coordinator).
// For the loop it is a port: it samples now and then, and limits the loop's sleep while it waits for the core to become
// free.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/port.hpp"
#include "protocol/shared/segment.hpp"
#include "service/loop/core_readings.hpp"
#include "service/loop/core_watch.hpp"
#include "steer/coordinator/coordinator.hpp"

namespace outrigger::service {

class CorePolicy final : public fabric::Port {
 public:
  // `cpu`: this process's core, which no rank uses. Without this call the core is not watched.
  void watch_core(int cpu) { idle_times_.emplace(cpu); }
  // Before the first post. Must outlive this.
  void start(steer::Coordinator& coordinator) { coordinator_ = &coordinator; }
  // Publishes this process's share of its core there, until the segment is removed.
  void publish_to(SegmentHeader& header);
  // `process` shares the core; ranks' reports name it from now on.
  void publish_other_job(std::int32_t process);
  void remove(const SegmentHeader& header);

  // Degraded mode: nothing is offloaded from now on. After start().
  void give_up_offloading();

  bool progress() override { return false; }
  void look_after(Clock::time_point now, const fabric::Business& business) override;
  [[nodiscard]] bool arm() override { return true; }
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const override;

 private:
  struct Published {
    SegmentHeader* header;          // of a rank
    std::chrono::nanoseconds lent;  // to its copier, at the last reading
  };

  [[nodiscard]] static std::chrono::nanoseconds lent_to(const CopyQueue& copy_queue, Clock::time_point now);
  [[nodiscard]] std::chrono::nanoseconds lent_since_last(Clock::time_point now);
  void read_run_times(Clock::time_point now);
  void read_free_share(Clock::time_point now);
  void vote();

  steer::Coordinator* coordinator_ = nullptr;
  std::vector<Published> published_;
  RunTimesReader run_times_;
  std::optional<IdleTimeReader> idle_times_;
  CoreWatch watch_;
  RunTimes times_;
  std::int32_t other_job_ = 0;
  bool core_taken_ = false;
  bool failing_ = false;
  Clock::time_point looked_;
  Clock::time_point retried_;
  Clock::time_point free_since_;  // time and value of the last idle-time reading
  std::chrono::nanoseconds idle_{0};
  std::chrono::nanoseconds ran_{0};  // with the time lent
};

}  // namespace outrigger::service
