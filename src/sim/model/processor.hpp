// The cores that processes of a machine run on, in virtual time.
//
// Either each process has a core for itself, or processes share so many. Each is at home on one of them, which those
// who want it have in turn: whoever has it keeps it until it waits, or for a time slice at most. Who waits by looking
// again and again, and leaves the core to others in between (sched_yield), has its turns as well, each of which takes a
// switch. Processes of short slices, as service processes are, share the core evenly with whoever has it:
//
//     core 0   rank 0 computes ..............................| rank 2 looks | rank 0 looks | rank 2 looks | ...
//              ....... service process: half of the core ....  `- a switch each
//
// It goes to another core when that has nobody; and every few milliseconds one that waits for its turn, or shares, is
// moved to where fewer want a core, so that in the long run all have the same.
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
  // `cores` 0: as many as there are processes. `switch_ns`: from one process to the next, which looks at least.
  Processor(fabric::sim::VirtualTime& time, std::uint32_t cores, std::uint64_t switch_ns)
      : time_(time), switch_ns_(switch_ns), cores_(cores) {}
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  // Before it runs.
  void has_short_slices(ProcessId process);
  // Calls `done` when `process` has had `work_ns` of a core's time, after what it has asked for before.
  void run(ProcessId process, std::uint64_t work_ns, std::function<void()> done);
  // As run(), but whoever else wants the core has it once before.
  void yield_and_run(ProcessId process, std::uint64_t work_ns, std::function<void()> done);
  // It waits, or does no more, by looking again and again and leaves the core to others in between.
  void poll(ProcessId process, bool more);
  // It waits, or does no more, and keeps the core meanwhile.
  void spin(ProcessId process, bool more);

 private:
  struct Work {
    std::uint64_t left_ns;
    bool next_turn;
    std::function<void()> done;
  };
  struct Process {
    std::size_t home = 0;  // index of cores_
    bool short_slices = false;
    bool listed = false;  // in its core's ring; of short slices: in its `sharing`
    std::deque<Work> works;
    std::uint32_t polling = 0;
    std::uint32_t spinning = 0;
    std::uint64_t had_ns = 0;
    std::uint64_t rests_ns = 0;  // when it has had nothing to do for a moment
    [[nodiscard]] bool wants() const { return !works.empty() || spinning != 0; }
    [[nodiscard]] bool is_there() const { return wants() || polling != 0; }
    [[nodiscard]] bool yields() const { return !works.empty() && works.front().next_turn; }
    [[nodiscard]] bool has_done_work() const { return !works.empty() && works.front().left_ns == 0; }
  };
  struct Core {
    std::vector<Process*> ring;  // who want it, in the order of their turns
    std::size_t at = 0;          // whose turn it is
    bool taken = false;          // by ring[at]; else those in it look in turn, and find nothing
    std::vector<Process*> sharing;
    std::uint32_t processes = 0;  // at home here
    std::uint64_t turn_ns = 0;    // when it became, or becomes, the turn of `at`
    std::uint64_t known_ns = 0;   // until when works are accounted for
    std::uint64_t plan = 0;       // only what was planned last counts
    [[nodiscard]] std::size_t wanting() const;
    // Whoever has taken it; null: nobody.
    [[nodiscard]] Process* holder() const { return taken ? ring[at] : nullptr; }
    // Among how many it is shared now.
    [[nodiscard]] std::uint64_t parts() const { return sharing.size() + (taken && holder()->wants() ? 1 : 0); }
    [[nodiscard]] bool has_nobody() const { return ring.empty() && sharing.empty(); }
    [[nodiscard]] bool is_had_by(const Process& process) const { return holder() == &process; }
    // How many have their turn before one that has something to do; all of them if nobody has.
    [[nodiscard]] std::size_t turns_before_work() const;
  };

  void add(ProcessId process, Work work);
  Process& known(ProcessId process);
  void move_home(Process& process, Core& core);
  void go_where_nobody_is(Process& process);
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
