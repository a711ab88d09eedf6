// The part of a trace that service processes on a DPU note there: the keeper fetches it now and then and puts it into
// the memory of the rank that it is of, as a service process on the node would have, by the clock of this node.
//
//   keeper                          outriggerd dpu
//   trace {rank} ------------------> makes memory for it, which the service process writes to
//   trace_ask ---------------------> what does the clock say?   eight times, and the quickest answer counts
//   <---------------------- told
//   trace_ask {events} ------------>
//   <-- events of each rank, told   again while there are more
//
// One such round begins twice a second, and when a rank wants its events to be here: at the end. Nothing of this is
// done where there is no trace.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "protocol/wire/dpu_link.hpp"
#include "service/keeper/ranks/local_ranks.hpp"
#include "trace/event_memory.hpp"
#include "trace/remote_clock.hpp"
#include "trace/remote_events.hpp"

namespace outrigger::service {

class TraceOfDpu {
 public:
  using Clock = std::chrono::steady_clock;

  // `link` must outlive this.
  explicit TraceOfDpu(DpuLink& link) : link_(link) {}

  // For people.
  void name_dpu(std::string name) { dpu_ = std::move(name); }
  // A rank with memory for its events.
  void show(const LocalRank& rank, Clock::time_point now);
  // What has been noted for the rank by now is to be in its memory; its header says when (Header::settled).
  void settle(std::uint32_t world_rank, Clock::time_point now);
  // trace_events or trace_told. Error: it makes no sense.
  [[nodiscard]] Status take(const DpuFrame& frame, Clock::time_point now);
  // Begins a round when it is time for one.
  void work(Clock::time_point now);
  // Nothing: there is no trace.
  [[nodiscard]] std::optional<Clock::time_point> next_look() const;

  // Once more, for all, though no rank asks.
  void begin_last_round() { last_round_ = !ranks_.empty(); }
  [[nodiscard]] bool last_round_is_over() const { return !last_round_; }
  // The DPU has no part in this job any more: nobody waits for it.
  void end();

 private:
  void begin(Clock::time_point now);
  void ask(bool events);
  [[nodiscard]] Status take_events(const trace::RemoteEvents& events);
  [[nodiscard]] Status take_answer(const DpuTraceTold& told, Clock::time_point now);
  void compare_clocks(std::int64_t there_ns);
  void finish(bool all_noted, Clock::time_point now);
  void say_settled(std::vector<std::uint32_t>& ranks);

  DpuLink& link_;
  std::string dpu_;
  std::map<std::uint32_t, trace::Memory> ranks_;  // by world rank
  trace::RemoteClock clock_;

  // The round that is under way.
  bool under_way_ = false;
  std::uint64_t asked_ = 0;  // questions
  std::int64_t asked_ns_ = 0;
  std::uint32_t comparisons_left_ = 0;
  std::optional<trace::ClockSample> best_;
  std::vector<std::uint32_t> settling_;
  bool is_last_ = false;

  std::vector<std::uint32_t> waiting_;  // for the next one
  bool last_round_ = false;             // wanted, and not over
  Clock::time_point next_ = {};
  Clock::time_point hurries_until_ = {};
};

}  // namespace outrigger::service
