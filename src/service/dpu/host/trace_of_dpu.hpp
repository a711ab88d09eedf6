// The part of a trace that service processes on a DPU write. The keeper fetches it and puts it into the ranks' event
// memory, with times of this node's clock.
//
//   keeper                          outriggerd dpu
//   trace {rank} ------------------> makes event memory, which the service process writes to
//   trace_ask ---------------------> reads its clock   (eight times; the quickest answer counts)
//        <---------------------- told
//   trace_ask {events} ------------>
//        <-- events of each rank, told   repeated while there are more
//
// Such a round begins twice a second, and at the end, when a rank waits for its events. Without a trace nothing is
// sent.
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

  void name_dpu(std::string name) { dpu_ = std::move(name); }
  // Adds a rank that has event memory.
  void show(const LocalRank& rank, Clock::time_point now);
  // Fetches the events of this rank so far; Header::settled tells it when they are in its memory.
  void settle(std::uint32_t world_rank, Clock::time_point now);
  // Takes trace_events or trace_told. Error: it is malformed.
  [[nodiscard]] Status take(const DpuFrame& frame, Clock::time_point now);
  // Begins a round when one is due.
  void work(Clock::time_point now);
  // nullopt: there is no trace.
  [[nodiscard]] std::optional<Clock::time_point> next_look() const;

  // Requests one more round for all ranks.
  void begin_last_round() { last_round_ = !ranks_.empty(); }
  [[nodiscard]] bool last_round_is_over() const { return !last_round_; }
  // The DPU has left the job: waits end.
  void end();

 private:
  void begin(Clock::time_point now);
  void ask(bool events);
  [[nodiscard]] Status take_events(const trace::RemoteEvents& events);
  [[nodiscard]] Status take_answer(const DpuTraceTold& told, Clock::time_point now);
  void compare_clocks(std::int64_t there_ns);
  void finish(bool all_noted, Clock::time_point now);
  void mark_settled(std::vector<std::uint32_t>& ranks);

  DpuLink& link_;
  std::string dpu_;
  std::map<std::uint32_t, trace::Memory> ranks_;  // by world rank
  trace::RemoteClock clock_;

  // The current round.
  bool under_way_ = false;
  std::uint64_t asked_ = 0;  // number of questions sent
  std::int64_t asked_ns_ = 0;
  std::uint32_t comparisons_left_ = 0;
  std::optional<trace::ClockSample> best_;
  std::vector<std::uint32_t> settling_;
  bool is_last_ = false;

  std::vector<std::uint32_t> waiting_;  // for the next round
  bool last_round_ = false;             // requested, and not over
  Clock::time_point next_ = {};
  Clock::time_point hurries_until_ = {};
};

}  // namespace outrigger::service
