// The cores that processes of a machine run on, in virtual time.
//
// Either each process has a core for itself, or processes share so many. Each is at home on one of them, which it
// shares evenly with others that want it (processor sharing, what a fair scheduler comes to over a few of its slices).
// It goes to another core when that has nobody; and every few milliseconds all are dealt anew, so that in the long run
// all have the same:
//
//     core 0   rank 0, service process    each has half: rank 0 is late by what the service process takes, however
//     core 1   rank 1                     long rank 1 has been waiting, unless that lasts for milliseconds
//
// A process that turns to work finds the core in another's hands, and pays for the switch.
//
// Thread rule: one thread. Nothing is called from inside the call that asked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "fabric/sim/virtual_time.hpp"
#include "protocol/ids.hpp"

namespace outrigger::sim::model {

using ProcessId = StrongId<struct ProcessIdTag, std::uint32_t>;

class Processor {
 public:
  // `cores` 0: as many as there are processes.
  Processor(fabric::sim::VirtualTime& time, std::uint32_t cores, std::uint64_t switch_ns)
      : time_(time), switch_ns_(switch_ns), cores_(cores) {}
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  // Calls `done` when `process` has had `work_ns` of a core's time.
  void run(ProcessId process, std::uint64_t work_ns, std::function<void()> done);
  // What it costs `process` to take a core: nothing where it was the last to do so, or one is free; else a switch for
  // each that looks and yields before its turn comes, half of them as a rule.
  [[nodiscard]] std::uint64_t switch_to(ProcessId process);
  // What it costs `process` to leave the core to others once, and to come back.
  [[nodiscard]] std::uint64_t yield_once(ProcessId process);
  // It waits, or does no more, by looking again and again and leaves the core to others in between.
  void poll(ProcessId process, bool more);
  // It waits and spins, and has its part, too.
  void spin(ProcessId process, bool more);

 private:
  struct Work {
    ProcessId process;
    double begin;  // of what each process of the core has been given, in ns; away from a core: since then, 0
    double end;
    std::uint64_t order;
    std::function<void()> done;
  };
  struct Core {
    std::vector<Work> works;      // a heap, the next to end first
    std::uint32_t processes = 0;  // at home here
    std::uint32_t spinning = 0;
    std::uint32_t polling = 0;
    double given = 0;  // to each that has been there from the beginning
    [[nodiscard]] std::size_t wanting() const { return works.size() + spinning; }
    [[nodiscard]] double part() const { return wanting() <= 1 ? 1.0 : 1.0 / static_cast<double>(wanting()); }
    [[nodiscard]] bool has_nobody() const { return wanting() + polling == 0; }
  };
  [[nodiscard]] static bool ends_later(const Work& one, const Work& other);
  struct Process {
    std::size_t home = 0;     // index of cores_
    std::uint32_t works = 0;  // whoever has some spins with none of it
    std::uint32_t spinning = 0;
    std::uint32_t polling = 0;
    [[nodiscard]] std::uint32_t only_spinning() const { return works == 0 ? spinning : 0; }
  };
  // Its home; it moves if it finds others there, and nobody elsewhere.
  Core& core_for(ProcessId process);
  Process& known(ProcessId process);
  Core& home_of(ProcessId process) { return cores_[known(process).home]; }
  void move_home(ProcessId process, std::size_t core);
  static void add(Core& core, Work work);
  void advance();
  void look_later();
  void end_what_is_done();
  [[nodiscard]] bool uneven() const;
  void deal_later();
  void deal_anew();

  fabric::sim::VirtualTime& time_;
  std::uint64_t switch_ns_;
  std::vector<Core> cores_;
  std::unordered_map<ProcessId, Process> processes_;
  std::size_t works_ = 0;
  std::uint32_t polling_ = 0;
  std::uint64_t given_at_ns_ = 0;
  std::uint64_t next_order_ = 0;
  std::uint64_t looks_ = 0;  // only the last look that was arranged counts
  bool will_deal_ = false;
  std::optional<ProcessId> last_;
};

// What a process does from taking a core until it lets go: steps, each when it has spent so much of the core's time.
class CpuBurst {
 public:
  CpuBurst(Processor& processor, ProcessId process) : processor_(processor), process_(process) {}
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
  ProcessId process_;
  std::deque<Step> steps_;
  std::uint64_t spent_ns_ = 0;
  std::uint64_t had_ns_ = 0;
};

}  // namespace outrigger::sim::model
