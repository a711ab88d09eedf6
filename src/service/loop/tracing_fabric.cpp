#include "service/loop/tracing_fabric.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::service {

using fabric::MoveCompletion;

void TracingFabric::Traced::moved(const fabric::MoveOutcome& outcome) {
  event.ended_ns = TraceLog::now_ns();
  if (event.kind == static_cast<std::uint8_t>(trace::EventKind::move)) {
    event.detail = static_cast<std::uint8_t>(outcome.reach);
    event.number = static_cast<std::uint32_t>(outcome.status);
  }
  owner_.log_.moved(from, to, event);
  MoveCompletion& waits = *waiter;
  owner_.end(*this);
  waits.moved(outcome);  // may reuse this object
}

TracingFabric::Traced& TracingFabric::keep(MoveCompletion& waiter, WorldRank from, WorldRank to) {
  if (under_way_ == all_.size()) {
    all_.push_back(std::make_unique<Traced>(*this));
    all_.back()->place = under_way_;
  }
  Traced& kept = *all_[under_way_++];
  kept.waiter = &waiter;
  kept.event = {};
  kept.from = from;
  kept.to = to;
  return kept;
}

void TracingFabric::end(Traced& traced) {
  std::unique_ptr<Traced>& last = all_[--under_way_];
  std::swap(last->place, traced.place);
  std::swap(last, all_[last->place]);
}

TracingFabric::Traced& TracingFabric::begin(const Block& from, const Block& to, const BlockId* name,
                                            MoveCompletion& waiter) {
  Traced& traced = keep(waiter, from.memory.owner, to.memory.owner);
  trace::Event& event = traced.event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::move);
  event.bytes = from.bytes;
  event.subject = std::uint64_t{from.memory.owner.value()} << 32U | to.memory.owner.value();
  if (name != nullptr) {
    event.group = name->operation.group;
    event.sequence = name->operation.sequence;
  }
  event.began_ns = TraceLog::now_ns();
  return traced;
}

TracingFabric::Traced& TracingFabric::begin_reduce(std::span<const Block> operands, std::span<const BlockId> names,
                                                   const Block& into, MoveCompletion& waiter) {
  Traced& traced = keep(waiter, into.memory.owner, into.memory.owner);
  trace::Event& event = traced.event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::reduce);
  event.bytes = into.bytes;
  event.subject = into.memory.owner.value();
  event.number = static_cast<std::uint32_t>(operands.size());
  if (!names.empty()) {
    event.group = names.front().operation.group;
    event.sequence = names.front().operation.sequence;
  }
  event.began_ns = TraceLog::now_ns();
  return traced;
}

void TracingFabric::move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) {
  mover_.move(from, to, name, begin(from, to, name, completion));
}

void TracingFabric::reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
                           const Block& into, MoveCompletion& completion) {
  mover_.reduce(reduction, operands, names, into, begin_reduce(operands, names, into, completion));
}

// Called also for moves that have ended and are not known any more.
void TracingFabric::cancel(MoveCompletion& completion) {
  const auto end_of_these = all_.begin() + static_cast<std::ptrdiff_t>(under_way_);
  const auto found =
      std::find_if(all_.begin(), end_of_these, [&](const auto& each) { return each->waiter == &completion; });
  if (found == end_of_these) return;
  Traced& traced = **found;
  mover_.cancel(traced);
  end(traced);
}

void TracingFabric::complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) {
  log_.ended(rank, slot, record);
  ranks_.complete(rank, slot, record);
}

}  // namespace outrigger::service
