// The cores that processes of a machine run on, in virtual time.
//
// Either each process has a core for itself, or processes share so many: with more of them than cores each has an equal
// part (processor sharing, what a fair scheduler comes to over a few of its slices). A process that turns to work finds
// the core in another's hands, and pays for the switch.
//
// Thread rule: one thread. Nothing is called from inside the call that asked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "fabric/sim/virtual_time.hpp"

namespace outrigger::sim::model {

class Processor {
 public:
  // `cores` 0: as many as there are processes.
  Processor(fabric::sim::VirtualTime& time, std::uint32_t cores, std::uint64_t switch_ns)
      : time_(time), cores_(cores), switch_ns_(switch_ns) {}
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  // Calls `done` when whoever asks has had `work_ns` of a core's time.
  void run(std::uint64_t work_ns, std::function<void()> done);
  // What it costs `process` to take a core: nothing where it was the last to do so, or one is free; else a switch for
  // each that looks and yields before its turn comes, half of them as a rule.
  [[nodiscard]] std::uint64_t switch_to(const void* process);
  // One more, or one less, that waits by looking again and again and leaves the core to others in between.
  void poll(bool more);
  // Processes that wait and spin have their part, too.
  void spin(bool more);

 private:
  struct Work {
    double end;  // of what each process has been given, in ns
    std::uint64_t order;
    std::function<void()> done;
  };
  [[nodiscard]] double part() const;  // of a core, for each
  void advance();
  void look_later();

  fabric::sim::VirtualTime& time_;
  std::uint32_t cores_;
  std::uint64_t switch_ns_;
  std::vector<Work> works_;  // a heap, the next to end first
  std::uint32_t spinning_ = 0;
  std::uint32_t polling_ = 0;
  double given_ = 0;  // to each that has been there from the beginning
  std::uint64_t given_at_ns_ = 0;
  std::uint64_t next_order_ = 0;
  std::uint64_t looks_ = 0;  // only the last look that was arranged counts
  const void* last_ = nullptr;
};

// What a process does from taking a core until it lets go: steps, each when it has spent so much of the core's time.
class CpuBurst {
 public:
  explicit CpuBurst(Processor& processor) : processor_(processor) {}
  CpuBurst(const CpuBurst&) = delete;
  CpuBurst& operator=(const CpuBurst&) = delete;

  // Not before the last step of the one before.
  void begin();
  void spend(std::uint64_t time_ns) { spent_ns_ += time_ns; }
  // What follows from what has been spent until now.
  void then(std::function<void()> step);
  [[nodiscard]] std::uint64_t spent_ns() const { return spent_ns_; }

 private:
  struct Step {
    std::uint64_t at_ns;  // spent since the beginning
    std::function<void()> action;
  };
  void run_first();
  void take_steps();

  Processor& processor_;
  std::deque<Step> steps_;
  std::uint64_t spent_ns_ = 0;
  std::uint64_t had_ns_ = 0;
};

}  // namespace outrigger::sim::model
