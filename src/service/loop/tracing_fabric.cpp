#include "service/loop/tracing_fabric.hpp"

#include <cassert>
#include <utility>

namespace outrigger::service {

using fabric::MoveCompletion;

void TracingFabric::Traced::moved(const fabric::MoveOutcome& outcome) {
  event_.ended_ns = TraceLog::now_ns();
  if (event_.kind == static_cast<std::uint8_t>(trace::EventKind::move)) {
    event_.detail = static_cast<std::uint8_t>(outcome.reach);
    event_.number = static_cast<std::uint32_t>(outcome.status);
  }
  owner_.log_.moved(from_, to_, event_);
  MoveCompletion& waiter = waiter_;
  const auto self = std::move(owner_.under_way_.extract(&waiter).mapped());  // until the end of this
  waiter.moved(outcome);
}

TracingFabric::Traced& TracingFabric::keep(MoveCompletion& waiter, const trace::Event& event, WorldRank from,
                                           WorldRank to) {
  auto traced = std::make_unique<Traced>(*this, waiter, event, from, to);
  Traced& kept = *traced;
  [[maybe_unused]] const bool added = under_way_.emplace(&waiter, std::move(traced)).second;
  assert(added && "who waits, waits for one move at a time");
  return kept;
}

TracingFabric::Traced& TracingFabric::begin(const Block& from, const Block& to, const BlockId* id,
                                            MoveCompletion& waiter) {
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::move);
  event.began_ns = TraceLog::now_ns();
  event.bytes = from.bytes;
  event.subject = std::uint64_t{from.memory.owner.value()} << 32U | to.memory.owner.value();
  if (id != nullptr) {
    event.group = id->operation.group;
    event.sequence = id->operation.sequence;
  }
  return keep(waiter, event, from.memory.owner, to.memory.owner);
}

TracingFabric::Traced& TracingFabric::begin_reduce(std::span<const BlockId> names, std::span<const Block> operands,
                                                   const Block& into, MoveCompletion& waiter) {
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::reduce);
  event.began_ns = TraceLog::now_ns();
  event.bytes = into.bytes;
  event.subject = into.memory.owner.value();
  event.number = static_cast<std::uint32_t>(operands.size());
  if (!names.empty()) {
    event.group = names.front().operation.group;
    event.sequence = names.front().operation.sequence;
  }
  return keep(waiter, event, into.memory.owner, into.memory.owner);
}

void TracingFabric::move(const Block& from, const Block& to, MoveCompletion& completion) {
  inner_.move(from, to, begin(from, to, nullptr, completion));
}

void TracingFabric::move_block(const BlockId& id, SpId source, const Block& from, const Block& to,
                               MoveCompletion& completion) {
  inner_.move_block(id, source, from, to, begin(from, to, &id, completion));
}

void TracingFabric::reduce(const Reduction& reduction, std::span<const Block> operands, const Block& into,
                           MoveCompletion& completion) {
  inner_.reduce(reduction, operands, into, begin_reduce({}, operands, into, completion));
}

void TracingFabric::reduce_blocks(std::span<const BlockId> names, const Reduction& reduction,
                                  std::span<const Block> operands, const Block& into, MoveCompletion& completion) {
  inner_.reduce_blocks(names, reduction, operands, into, begin_reduce(names, operands, into, completion));
}

// Also of moves that have ended, which it does not know any more.
void TracingFabric::cancel(MoveCompletion& completion) {
  const auto found = under_way_.find(&completion);
  if (found == under_way_.end()) return;
  inner_.cancel(*found->second);
  under_way_.erase(found);
}

void TracingFabric::complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) {
  log_.ended(rank, slot, record);
  inner_.complete(rank, slot, record);
}

}  // namespace outrigger::service
