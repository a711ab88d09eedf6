#include "fabric/ucx/staged_reductions.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <iterator>
#include <utility>

namespace outrigger::fabric::ucx {

void StagedReductions::start(const Reduction& reduction, std::vector<Operand> operands, const Block& into,
                             MoveCompletion& completion) {
  assert(std::ranges::any_of(operands, [](const Operand& operand) { return operand.from.has_value(); }) &&
         "the node's fabric reduces local operands");
  Started& started = started_.emplace_back();
  started.self = std::prev(started_.end());
  started.reduction = reduction;
  started.operands = is_exact(reduction) ? joined(operands) : std::move(operands);
  started.into = into;
  started.completion = &completion;
  pull_batch(started);
}

std::vector<StagedReductions::Operand> StagedReductions::joined(const std::vector<Operand>& operands) {
  std::vector<Operand> all;
  all.reserve(operands.size());
  for (const Operand& operand : operands) {
    const auto joins = [&](const Operand& earlier) {
      return earlier.from && earlier.from == operand.from && !earlier.name && !operand.name &&
             earlier.others.size() < wire::kMaxOtherOperands;
    };
    const auto earlier = std::ranges::find_if(all, joins);
    if (earlier == all.end()) {
      all.push_back(operand);
    } else {
      earlier->others.push_back(operand.block.memory);
    }
  }
  return all.size() == 1 ? operands : all;  // a reduction has two operands
}

void StagedReductions::pull(const Started& started, const Operand& operand, Pull& pull) {
  const Block to{pull.buffer(), operand.block.bytes};
  if (operand.others.empty()) {
    const BlockId* name = operand.name ? &*operand.name : nullptr;
    return wire_.pull(*operand.from, operand.block, to, pull, {.eager = name, .others = nullptr});
  }
  const wire::OtherOperands others{started.reduction, operand.others};
  wire_.pull(*operand.from, operand.block, to, pull, {.eager = nullptr, .others = &others});
}

// Builds the whole list first: a pull does not complete inside wire_.pull().
void StagedReductions::pull_batch(Started& started) {
  started.batch = ReduceRanges{started.reduction, {}, started.into.memory};
  if (started.batch_end != 0) started.batch.operands.push_back(started.into.memory);
  const std::size_t most = std::max<std::size_t>(2, kBatchBytes / started.into.bytes);
  for (; started.batch_end != started.operands.size(); ++started.batch_end) {
    const Operand& operand = started.operands[started.batch_end];
    if (!operand.from) {
      started.batch.operands.push_back(operand.block.memory);
      continue;
    }
    if (started.pulls.size() == most) break;
    const MemoryRef buffer = wire_.memory().take(operand.block.bytes);
    ++started.under_way;
    started.batch.operands.push_back(buffer);
    pull(started, operand, started.pulls.emplace_back(*this, started, buffer));
  }
}

void StagedReductions::Pull::moved(const MoveOutcome& outcome) {
  under_way_ = false;
  if (outcome.status != MoveStatus::ok) started_.status = outcome.status;
  if (--started_.under_way == 0) all_.end_batch(started_);
}

void StagedReductions::end_batch(Started& started) {
  if (started.status == MoveStatus::ok) {
    if (wire_.memory().is_remote()) return reduce_by_node(started);
    started.status = reducer_.reduce_all(started.batch, started.into.bytes);
  }
  batch_reduced(started, started.status);
}

void StagedReductions::reduce_by_node(Started& started) {
  std::vector<Block> operands;
  operands.reserve(started.batch.operands.size());
  for (const MemoryRef& operand : started.batch.operands) operands.push_back({operand, started.into.bytes});
  node_.reduce(started.reduction, operands, {}, started.into, started.reduced.emplace(*this, started));
}

void StagedReductions::batch_reduced(Started& started, MoveStatus status) {
  started.status = status;
  started.reduced.reset();
  give_back_buffers(started);
  if (started.status == MoveStatus::ok && started.batch_end != started.operands.size()) return pull_batch(started);
  const MoveOutcome outcome{started.status, Reach::wire};
  MoveCompletion& completion = *started.completion;
  started_.erase(started.self);
  completion.moved(outcome);
}

void StagedReductions::cancel(const MoveCompletion& completion) {
  const auto found = std::ranges::find(started_, &completion, &Started::completion);
  if (found == started_.end()) return;
  for (Pull& pull : found->pulls) {
    if (pull.under_way()) wire_.cancel(pull);
  }
  if (found->reduced) node_.cancel(*found->reduced);
  give_back_buffers(*found);
  started_.erase(found);
}

void StagedReductions::give_back_buffers(Started& started) {
  for (const Pull& pull : started.pulls) wire_.memory().give_back(pull.buffer());
  started.pulls.clear();
}

}  // namespace outrigger::fabric::ucx
