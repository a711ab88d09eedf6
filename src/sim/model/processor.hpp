// The cores that processes of a machine run on, in virtual time.
//
// Either each process has a core, or processes share some cores. Each process has a home core and its runnable
// processes take turns: one keeps the core until it waits, at most for a time slice. A process that waits by polling
// and yielding (sched_yield) takes its turns, too; each costs a switch. Processes with short slices, as service
// processes are, share the core evenly with the process that has it:
//
//   core 0   rank 0 computes ..............................| rank 2 looks | rank 0 looks | rank 2 looks | ...
//            ....... service process: half of the core ....  `- a switch each
//
// A process moves to a core that becomes empty. Every few milliseconds one that waits or shares is moved to a less
// contended core, so that all get the same in the long run.
//
// Thread rule: one thread. Nothing is called from inside the call that asked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "fabric/sim/virtual_time.hpp"
#include "protocol/ids.hpp"

namespace outrigger::sim::model {

using ProcessId = StrongId<struct ProcessIdTag, std::uint32_t>;

class Processor {
 public:
  // `cores` 0: one per process. `switch_ns`: from one process to the next, which at least polls.
  Processor(fabric::sim::VirtualTime& time, std::uint32_t cores, std::uint64_t switch_ns)
      : time_(time), switch_ns_(switch_ns), cores_(cores) {}
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  void has_short_slices(ProcessId process);
  // Calls `done` when `process` has had `work_ns` of a core's time, after its earlier requests.
  void run(ProcessId process, std::uint64_t work_ns, std::function<void()> done);
  // As run(), but other runnable processes get the core once before.
  void yield_and_run(ProcessId process, std::uint64_t work_ns, std::function<void()> done);
  // Begins or ends polling with yields in between.
  void poll(ProcessId process, bool more);
  // Begins or ends polling without giving up the core.
  void spin(ProcessId process, bool more);

 private:
  struct Work {
    std::uint64_t left_ns;
    bool next_turn;
    std::function<void()> done;
  };
  struct Process {
    std::size_t home = 0;  // index into cores_
    bool short_slices = false;
    bool listed = false;  // in its core's ring; with short slices: in its `sharing`
    std::deque<Work> works;
    std::uint32_t polling = 0;
    std::uint32_t spinning = 0;
    std::uint64_t had_ns = 0;
    std::uint64_t rests_ns = 0;  // when it has been idle for a moment
    [[nodiscard]] bool wants() const { return !works.empty() || spinning != 0; }
    [[nodiscard]] bool is_there() const { return wants() || polling != 0; }
    [[nodiscard]] bool yields() const { return !works.empty() && works.front().next_turn; }
    [[nodiscard]] bool has_done_work() const { return !works.empty() && works.front().left_ns == 0; }
  };
  struct Core {
    std::vector<Process*> ring;  // runnable processes in the order of their turns
    std::size_t at = 0;          // index of the current one
    bool taken = false;          // ring[at] has it; otherwise all in the ring poll in turn without result
    std::vector<Process*> sharing;
    std::uint32_t processes = 0;  // number of processes at home here
    std::uint64_t turn_ns = 0;    // begin of the turn of `at`
    std::uint64_t known_ns = 0;   // core time is accounted for up to here
    std::uint64_t plan = 0;       // only the event planned last is valid
    [[nodiscard]] std::size_t wanting() const;
    // nullptr if no process has taken it.
    [[nodiscard]] Process* holder() const { return taken ? ring[at] : nullptr; }
    // The number of current sharers.
    [[nodiscard]] std::uint64_t parts() const { return sharing.size() + (taken && holder()->wants() ? 1 : 0); }
    [[nodiscard]] bool is_empty() const { return ring.empty() && sharing.empty(); }
    [[nodiscard]] bool is_had_by(const Process& process) const { return holder() == &process; }
    // Number of turns before a process with work; the whole ring if there is none.
    [[nodiscard]] std::size_t turns_before_work() const;
  };

  void add(ProcessId process, Work work);
  Process& known(ProcessId process);
  void move_home(Process& process, Core& core);
  void go_to_empty_core(Process& process);
  void list(Process& process);
  void unlist(Process& process);
  void leave(Process& process);
  void leave_if_gone(Process& process);
  void wait(Process& process, std::uint32_t& how, bool more);
  void catch_up(Core& core);
  void account(Core& core);
  [[nodiscard]] std::uint64_t next_ns(const Core& core) const;
  void plan(Core& core);
  void go_on(Core& core);
  void end_work(Core& core, Process& process);
  void go_on_with_ring(Core& core);
  void take(Core& core);
  void pass_on(Core& core);
  [[nodiscard]] bool uneven() const;
  void balance_later();
  void balance();

  fabric::sim::VirtualTime& time_;
  std::uint64_t switch_ns_;
  std::vector<Core> cores_;
  std::unordered_map<ProcessId, Process> processes_;
  bool will_balance_ = false;
};

// A process has a core: steps, each at a point of the core time spent.
class CpuBurst {
 public:
  CpuBurst(Processor& processor, ProcessId process) : processor_(processor), process_(process) {}
  CpuBurst(const CpuBurst&) = delete;
  CpuBurst& operator=(const CpuBurst&) = delete;

  // Not before the last step of the previous burst.
  void begin();
  void spend(std::uint64_t time_ns) { spent_ns_ += time_ns; }
  // Adds a step after the time spent so far.
  void then(std::function<void()> step);
  [[nodiscard]] std::uint64_t spent_ns() const { return spent_ns_; }

 private:
  struct Step {
    std::uint64_t at_ns;  // core time at the begin of the burst plus the time spent
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
