// Finds out if others take this service process's core. Then it votes that nothing be offloaded (steer/coordinator). To
// the loop it is a port: it looks now and then, and limits how long the loop sleeps while it waits for the core to be
// free again.
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
  // `cpu`: this process's, which no rank uses. Without this the core is not watched.
  void watch_core(int cpu) { idle_times_.emplace(cpu); }
  // Before the first post. Must outlive this.
  void start(steer::Coordinator& coordinator) { coordinator_ = &coordinator; }
  // How much of its core it gets is written there. Until it is removed.
  void publish_to(SegmentHeader& header);
  // Has the core, too: ranks' reports say so from now on.
  void publish_other_job(std::int32_t process);
  void remove(const SegmentHeader& header);

  // Service processes die too often: from now on nothing is offloaded. After start().
  void give_up_offloading();

  bool progress() override { return false; }
  void look_after(Clock::time_point now, const fabric::Business& business) override;
  [[nodiscard]] bool arm() override { return true; }
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const override;

 private:
  struct Published {
    SegmentHeader* header;          // of a rank
    std::chrono::nanoseconds lent;  // to its copier, when it was read last
  };

  [[nodiscard]] static std::chrono::nanoseconds lent_to(const CopyBoard& board, Clock::time_point now);
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
  Clock::time_point free_since_;  // the last reading of the core's idle time, and what it was
  std::chrono::nanoseconds idle_{0};
  std::chrono::nanoseconds ran_{0};  // with what was lent
};

}  // namespace outrigger::service
