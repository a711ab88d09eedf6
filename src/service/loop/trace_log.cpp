#include "service/loop/trace_log.hpp"

#include <utility>

#include "base/clock.hpp"

namespace outrigger::service {

std::int64_t TraceLog::now_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

Status TraceLog::add_rank(WorldRank rank, const UniqueFd& memory) {
  Result<trace::Memory> opened = trace::Memory::open(memory);
  if (!opened) return Error{opened.error()};
  Rank& added = ranks_.insert_or_assign(rank, Rank{std::move(opened).value(), {}}).first->second;
  added.memory.header().shared.store(1, std::memory_order_release);
  return Done{};
}

void TraceLog::remove(WorldRank rank) {
  ranks_.erase(rank);
}

TraceLog::Rank* TraceLog::find(WorldRank rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

void TraceLog::taken(const engine::PostedOperation& operation) {
  Rank* rank = find(operation.rank);
  if (rank == nullptr) return;
  rank->open[operation.slot] = operation.id;
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::taken);
  event.began_ns = event.ended_ns = now_ns();
  event.group = operation.id.group;
  event.sequence = operation.id.sequence;
  event.name = static_cast<std::uint16_t>(index_of(operation.collective));
  event.number = static_cast<std::uint32_t>(index_of(operation.algorithm));
  (void)rank->memory.service_buffer().add(event);
}

void TraceLog::ended(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) {
  Rank* known = find(rank);
  if (known == nullptr) return;
  const auto found = known->open.find(slot);
  if (found == known->open.end()) return;
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::ended);
  event.began_ns = event.ended_ns = now_ns();
  event.group = found->second.group;
  event.sequence = found->second.sequence;
  event.number = trace::ending(static_cast<std::uint32_t>(record.status), record.late_announcements);
  known->open.erase(found);
  (void)known->memory.service_buffer().add(event);
}

void TraceLog::moved(WorldRank from, WorldRank to, const trace::Event& event) {
  Rank* rank = find(to);
  if (rank == nullptr) rank = find(from);
  if (rank == nullptr && !ranks_.empty()) rank = &ranks_.begin()->second;
  if (rank != nullptr) (void)rank->memory.service_buffer().add(event);
}

}  // namespace outrigger::service
