#include "fabric/host/reductions.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::fabric {

void Reductions::forget(const MoveCompletion& completion) {
  std::erase_if(queue_, [&](const Started& started) { return started.completion == &completion; });
  finished_.forget(completion);
}

bool Reductions::reduce_some(std::uint64_t bytes) {
  if (queue_.empty()) return false;
  std::uint64_t budget = std::max<std::uint64_t>(bytes, 1);
  while (budget != 0 && !queue_.empty()) {
    Started started = std::move(queue_.front());
    queue_.pop_front();
    budget -= std::min(budget, chunk_bytes(started) * (started.ranges.operands.size() - 1));
    if (!go_on(started)) queue_.push_back(std::move(started));
  }
  return true;
}

std::uint64_t Reductions::chunk_bytes(const Started& started) {
  const std::uint64_t share = kTurnBytes / started.ranges.operands.size();
  const std::uint64_t width = started.ranges.reduction.element_bytes();
  const std::uint64_t most = std::clamp(share, kLeastChunkBytes, MemoryReducer::kChunkBytes);
  return std::min(started.bytes - started.done_bytes, most / width * width);
}

bool Reductions::go_on(Started& started) {
  const std::uint64_t chunk = chunk_bytes(started);
  MoveOutcome outcome;
  // Checks whole ranges first: nothing is written if a range is partly out of bounds.
  if (started.done_bytes == 0) outcome.status = reducer_.check(started.ranges, started.bytes);
  if (outcome.status == MoveStatus::ok) outcome = reducer_.reduce(started.ranges, started.done_bytes, chunk);
  if (outcome.reach != Reach::mapped) started.reach = outcome.reach;
  started.done_bytes += chunk;
  if (outcome.status == MoveStatus::ok && started.done_bytes < started.bytes) return false;
  outcome.reach = started.reach;
  finished_.add(*started.completion, outcome);
  return true;
}

}  // namespace outrigger::fabric
