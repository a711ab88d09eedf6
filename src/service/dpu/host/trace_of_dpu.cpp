#include "service/dpu/host/trace_of_dpu.hpp"

#include <algorithm>
#include <ctime>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

constexpr std::uint32_t kComparisons = 8;
constexpr std::chrono::milliseconds kBetweenRounds{500};
// Until the service processes there have the memory, because ranks wait for that.
constexpr std::chrono::milliseconds kBetweenFirstRounds{2};
constexpr std::chrono::seconds kHurry{1};

std::int64_t now_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

}  // namespace

void TraceOfDpu::show(const LocalRank& rank, Clock::time_point now) {
  const std::uint32_t world_rank = rank.hello.world_rank;
  Result<trace::Memory> opened = trace::Memory::open(rank.trace_fd);
  if (!opened) return spdlog::warn("no trace of the DPU for rank {}: {}", world_rank, opened.error());
  report::set_text(opened.value().header().about.dpu, dpu_);
  ranks_.insert_or_assign(world_rank, std::move(opened).value());
  link_.send(DpuFrameKind::trace, rank.sp, encoded(DpuTraced{world_rank, 0}));
  next_ = now;
  hurries_until_ = next_ + kHurry;
}

void TraceOfDpu::settle(std::uint32_t world_rank, Clock::time_point now) {
  waiting_.push_back(world_rank);
  work(now);
}

std::optional<TraceOfDpu::Clock::time_point> TraceOfDpu::next_look() const {
  if (ranks_.empty() || under_way_) return std::nullopt;
  return next_;
}

void TraceOfDpu::work(Clock::time_point now) {
  if (ranks_.empty()) return mark_settled(waiting_);
  if (!under_way_ && (now >= next_ || !waiting_.empty() || last_round_)) begin(now);
}

void TraceOfDpu::begin(Clock::time_point now) {
  under_way_ = true;
  next_ = now + kBetweenRounds;
  settling_ = std::exchange(waiting_, {});
  is_last_ = last_round_;
  comparisons_left_ = kComparisons;
  best_.reset();
  ask(false);
}

void TraceOfDpu::ask(bool events) {
  asked_ns_ = now_ns();
  link_.send(DpuFrameKind::trace_ask, 0, encoded(DpuTraceAsk{++asked_, events ? 1U : 0U, 0}));
}

Status TraceOfDpu::take(const DpuFrame& frame, Clock::time_point now) {
  if (frame.kind == DpuFrameKind::trace_told) {
    const std::optional<DpuTraceTold> told = decoded<DpuTraceTold>(frame.packet);
    return told ? take_answer(*told, now) : Status(Error{"an answer of the wrong size"});
  }
  const std::optional<trace::RemoteEvents> events = decoded<trace::RemoteEvents>(frame.attached);
  return events ? take_events(*events) : Status(Error{"trace events that cannot be"});
}

Status TraceOfDpu::take_events(const trace::RemoteEvents& events) {
  const auto rank = ranks_.find(events.world_rank);
  if (rank == ranks_.end() || !clock_.compared()) return Error{"unexpected trace events"};
  trace::Header& header = rank->second.header();
  for (trace::Event event : events.events) {
    event.began_ns = clock_.here(event.began_ns);
    event.ended_ns = std::max(event.began_ns, clock_.here(event.ended_ns));
    (void)rank->second.service_buffer().add(event);
  }
  header.service_events_lost.fetch_add(events.dropped, std::memory_order_relaxed);
  header.about.dpu_clock_error_ns = clock_.error_ns();
  return Done{};
}

Status TraceOfDpu::take_answer(const DpuTraceTold& told, Clock::time_point now) {
  if (!under_way_ || told.number != asked_) return Error{"an unexpected answer"};
  if (comparisons_left_ != 0) {
    compare_clocks(told.at_ns);
  } else if (told.more != 0) {
    ask(true);
  } else {
    finish(told.noted == ranks_.size(), now);
  }
  return Done{};
}

void TraceOfDpu::compare_clocks(std::int64_t there_ns) {
  const std::int64_t took_ns = now_ns() - asked_ns_;
  if (!best_ || took_ns / 2 < best_->error_ns) {
    best_ = trace::ClockSample{there_ns, asked_ns_ + took_ns / 2 - there_ns, took_ns / 2};
  }
  const bool enough = --comparisons_left_ == 0;
  if (enough) clock_.compare(*best_);
  ask(enough);
}

void TraceOfDpu::finish(bool all_noted, Clock::time_point now) {
  under_way_ = false;
  mark_settled(settling_);
  if (is_last_) last_round_ = false;
  if (!all_noted) {
    if (now < hurries_until_) next_ = now + kBetweenFirstRounds;
    return;
  }
  for (auto& [world_rank, memory] : ranks_) memory.header().shared.store(1, std::memory_order_release);
}

void TraceOfDpu::mark_settled(std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t world_rank : std::exchange(ranks, {})) {
    const auto rank = ranks_.find(world_rank);
    if (rank != ranks_.end()) rank->second.header().settled.store(1, std::memory_order_release);
  }
}

void TraceOfDpu::end() {
  for (auto& [world_rank, memory] : ranks_) {
    memory.header().about.left_dpu_ns = now_ns();
    memory.header().settled.store(1, std::memory_order_release);
  }
  ranks_.clear();
  under_way_ = last_round_ = false;
}

}  // namespace outrigger::service
