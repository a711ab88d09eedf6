#include "engine/relay/segmented_block.hpp"

#include <algorithm>
#include <cassert>

namespace outrigger::engine {
namespace {

std::uint64_t share_of(std::uint64_t bytes, std::uint64_t count, std::uint64_t grain_bytes) {
  const std::uint64_t share = (bytes + count - 1) / count;
  return (share + grain_bytes - 1) / grain_bytes * grain_bytes;
}

}  // namespace

SegmentedBlock::SegmentedBlock(Operation& operation, LocalRank& rank, GroupRank source, std::uint32_t count,
                               std::uint64_t grain_bytes, Getter getter)
    : operation_(operation),
      rank_(rank),
      source_(source),
      bytes_(rank.blocks.pull_bytes(source)),
      segment_bytes_(share_of(bytes_, std::max(1U, count), grain_bytes)),
      getter_(getter),
      complete_(operation.context.scheduler) {
  missing_ = static_cast<std::uint32_t>((bytes_ + segment_bytes_ - 1) / segment_bytes_);
  states_.make(operation.context.memory, missing_, State::needed);
  rank_.pairs.split_move(missing_);
}

Segment SegmentedBlock::segment(std::uint32_t index) const {
  Segment segment;
  segment.source = source_;
  segment.bytes = bytes_;
  if (segment_bytes_ == bytes_) return segment;
  segment.index = index;
  segment.offset_bytes = index * segment_bytes_;
  segment.bytes = std::min(segment_bytes_, bytes_ - segment.offset_bytes);
  return segment;
}

void SegmentedBlock::fetch(std::uint32_t index, Route route) {
  if (is_fetched(index)) return;
  states_[index] = State::on_its_way;
  rank_.spawn(getter_(operation_, *this, index, route));
}

void SegmentedBlock::fetch_all(Route route) {
  for (std::uint32_t index = 0; index < count(); ++index) fetch(index, route);
}

void SegmentedBlock::fetch_shared(Route route) {
  for (std::uint32_t index = 0; index < count(); ++index) {
    if (operation_.replicas().is_held_or_fetched(segment(index))) fetch(index, route);
  }
}

Task SegmentedBlock::move_segment(Operation& operation, SegmentedBlock& block, std::uint32_t index, Route route) {
  LocalRank& rank = block.rank_;
  const Segment segment = block.segment(index);
  Fetch fetch(operation.replicas(), rank, segment, route);
  co_await fetch.located();
  const bool near = operation.is_near(fetch.from());
  co_await operation.enter_window(rank, near);
  const Block from = fetch.from();
  const Block to = fetch.to();
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank, near);
  fetch.moved(outcome);
  block.end(index, outcome);
}

// Others may wait here for the whole block, and this rank for what they have.
void SegmentedBlock::give_up() {
  rank_.pairs.set_failed(source_);
  operation_.reconsider_replicas(source_);
}

void SegmentedBlock::end(std::uint32_t index, const fabric::MoveOutcome& outcome) {
  assert(states_[index] == State::on_its_way && "a segment arrives once");
  states_[index] = State::arrived;
  if (outcome_.status == fabric::MoveStatus::ok) outcome_ = outcome;
  if (outcome.status != fabric::MoveStatus::ok) give_up();
  for (std::size_t waiters = waiting_.size(); waiters != 0; --waiters) {
    Suspension* waiter = waiting_.pop_front();
    if (static_cast<Arrived*>(waiter)->index_ == index) {
      operation_.context.scheduler.make_ready(*waiter);
    } else {
      waiting_.push_back(*waiter);
    }
  }
  if (--missing_ == 0) {
    complete_.notify();
  } else {
    rank_.pairs.end_segment();
  }
}

}  // namespace outrigger::engine
