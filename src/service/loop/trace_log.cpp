#include "service/loop/trace_log.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"

namespace outrigger::service {

std::int64_t TraceLog::now_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

Status TraceLog::add_rank(WorldRank rank, const UniqueFd& memory) {
  Result<trace::Memory> opened = trace::Memory::open(memory);
  if (!opened) return Error{opened.error()};
  remove(rank);
  numbers_.push_back(rank);
  Rank& added = ranks_.emplace_back(Rank{std::move(opened).value(), {}});
  added.memory.header().shared.store(1, std::memory_order_release);
  return Done{};
}

void TraceLog::remove(WorldRank rank) {
  const Rank* known = find(rank);
  if (known == nullptr) return;
  const auto place = known - ranks_.data();
  ranks_.erase(ranks_.begin() + place);
  numbers_.erase(numbers_.begin() + place);
}

TraceLog::Rank* TraceLog::find(WorldRank rank) {
  const auto found = std::find(numbers_.begin(), numbers_.end(), rank);
  return found == numbers_.end() ? nullptr : &ranks_[static_cast<std::size_t>(found - numbers_.begin())];
}

void TraceLog::taken(const engine::PostedOperation& operation) {
  Rank* rank = find(operation.rank);
  if (rank == nullptr) return;
  const std::size_t slot = operation.slot.value();
  if (slot >= rank->open.size()) rank->open.resize(slot + 1);
  rank->open[slot] = operation.id;
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
  if (known == nullptr || slot.value() >= known->open.size()) return;
  const std::optional<OperationId> operation = std::exchange(known->open[slot.value()], std::nullopt);
  if (!operation) return;
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::ended);
  event.began_ns = event.ended_ns = now_ns();
  event.group = operation->group;
  event.sequence = operation->sequence;
  event.number = trace::ending(static_cast<std::uint32_t>(record.status), record.late_announcements);
  (void)known->memory.service_buffer().add(event);
}

void TraceLog::moved(WorldRank from, WorldRank to, const trace::Event& event) {
  Rank* rank = find(to);
  if (rank == nullptr) rank = find(from);
  if (rank == nullptr && !ranks_.empty()) rank = &ranks_.front();
  if (rank != nullptr) (void)rank->memory.service_buffer().add(event);
}

}  // namespace outrigger::service
