#include "fabric/host/reductions.hpp"

#include <algorithm>

namespace outrigger::fabric {

void Reductions::forget(const MoveCompletion& completion) {
  std::erase_if(queue_, [&](const Started& started) { return started.completion == &completion; });
  finished_.forget(completion);
}

bool Reductions::reduce_some(std::uint64_t bytes) {
  if (queue_.empty()) return false;
  std::uint64_t budget = std::max<std::uint64_t>(bytes, 1);
  while (budget != 0 && !queue_.empty()) {
    Started started = queue_.front();
    queue_.pop_front();
    std::uint64_t chunk_bytes = 0;
    if (!go_on(started, chunk_bytes)) queue_.push_back(started);
    budget -= std::min(budget, chunk_bytes);
  }
  return true;
}

bool Reductions::go_on(Started& started, std::uint64_t& chunk_bytes) {
  const std::uint64_t width = started.ranges.reduction.element_bytes();
  chunk_bytes = std::min(started.bytes - started.done_bytes, kChunkBytes / width * width);
  MoveOutcome outcome;
  // Whole ranges first, so that nothing is written where one is partly out of bounds.
  if (started.done_bytes == 0) outcome.status = reducer_.check(started.ranges, started.bytes);
  if (outcome.status == MoveStatus::ok) outcome = reducer_.reduce(started.ranges, started.done_bytes, chunk_bytes);
  if (outcome.reach != Reach::mapped) started.reach = outcome.reach;
  started.done_bytes += chunk_bytes;
  if (outcome.status == MoveStatus::ok && started.done_bytes < started.bytes) return false;
  outcome.reach = started.reach;
  finished_.add(*started.completion, outcome);
  return true;
}

}  // namespace outrigger::fabric
