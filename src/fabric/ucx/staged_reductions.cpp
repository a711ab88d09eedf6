#include "fabric/ucx/staged_reductions.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <iterator>

namespace outrigger::fabric::ucx {

void StagedReductions::start(const Reduction& reduction, const Operand& left, const Operand& right, const Block& into,
                             MoveCompletion& completion) {
  assert((left.from || right.from) && "what is all here is reduced by the node");
  Started& started = started_.emplace_back();
  started.self = std::prev(started_.end());
  started.completion = &completion;
  started.bytes = into.bytes;
  started.ranges.reduction = reduction;
  started.ranges.into = into.memory;
  started.ranges.left = bring(started, 0, left);
  started.ranges.right = bring(started, 1, right);
}

MemoryRef StagedReductions::bring(Started& started, std::size_t index, const Operand& operand) {
  if (!operand.from) return operand.block.memory;
  Pull& pull = started.pulls[index];
  pull.all = this;
  pull.started = &started;
  pull.under_way = true;
  pull.buffer = wire_.memory().take(operand.block.bytes);
  wire_.pull(*operand.from, operand.block, Block{*pull.buffer, operand.block.bytes}, pull);
  return *pull.buffer;
}

void StagedReductions::Pull::moved(const MoveOutcome& outcome) {
  under_way = false;
  if (outcome.status != MoveStatus::ok) started->status = outcome.status;
  all->end_if_all_here(*started);
}

void StagedReductions::end_if_all_here(Started& started) {
  if (std::ranges::any_of(started.pulls, &Pull::under_way)) return;
  MoveOutcome outcome{started.status, Reach::wire};
  if (outcome.status == MoveStatus::ok) outcome.status = reducer_.reduce(started.ranges, 0, started.bytes).status;
  MoveCompletion& completion = *started.completion;
  give_back_buffers(started);
  started_.erase(started.self);
  completion.moved(outcome);
}

void StagedReductions::cancel(const MoveCompletion& completion) {
  const auto found = std::ranges::find(started_, &completion, &Started::completion);
  if (found == started_.end()) return;
  for (Pull& pull : found->pulls) {
    if (pull.under_way) wire_.cancel(pull);
  }
  give_back_buffers(*found);
  started_.erase(found);
}

void StagedReductions::give_back_buffers(Started& started) {
  for (const Pull& pull : started.pulls) {
    if (pull.buffer) wire_.memory().give_back(*pull.buffer);
  }
}

}  // namespace outrigger::fabric::ucx
