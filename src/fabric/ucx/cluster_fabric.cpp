#include "fabric/ucx/cluster_fabric.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace outrigger::fabric::ucx {

ClusterFabric::ClusterFabric(BlockMover& node, PeerMessenger& rings, Wire& wire, const JobMap& job_map, SpId self)
    : node_(node),
      rings_(rings),
      wire_(wire),
      reductions_(wire, node),
      sp_of_rank_(job_map.sp_of_rank),
      first_here_(job_map.first_sp[job_map.node_of(self)]),
      count_here_(static_cast<std::uint32_t>(job_map.nodes[job_map.node_of(self)].addresses.size())) {}

void ClusterFabric::move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) {
  const SpId source = sp_of_rank_[from.memory.owner.value()];
  const SpId destination = sp_of_rank_[to.memory.owner.value()];
  if (!is_here(source)) {
    wire_.pull(source, from, to, completion, {.eager = name, .others = nullptr});
  } else if (!is_here(destination)) {
    wire_.push(destination, from, to, completion);
  } else {
    node_.move(from, to, name, completion);
  }
}

void ClusterFabric::reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
                           const Block& into, MoveCompletion& completion) {
  const auto source_of = [this](const Block& block) { return sp_of_rank_[block.memory.owner.value()]; };
  const auto comes_from_here = [&](const Block& block) { return is_here(source_of(block)); };
  if (std::ranges::all_of(operands, comes_from_here)) return node_.reduce(reduction, operands, names, into, completion);
  std::vector<StagedReductions::Operand> all;
  all.reserve(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    StagedReductions::Operand& operand = all.emplace_back();
    operand.block = operands[i];
    if (!comes_from_here(operand.block)) operand.from = source_of(operand.block);
    if (!names.empty()) operand.name = names[i];
  }
  reductions_.start(reduction, std::move(all), into, completion);
}

void ClusterFabric::cancel(MoveCompletion& completion) {
  reductions_.cancel(completion);
  node_.cancel(completion);
  wire_.cancel(completion);
}

void ClusterFabric::send_eager(const BlockId& name, const Block& from, SpId reader) {
  if (!is_here(reader)) wire_.send_eager(name, from, reader);
}

void ClusterFabric::withdraw_eager(const BlockId& name) {
  wire_.withdraw_eager(name);
}

void ClusterFabric::forget_eager(const BlockId& name, SpId source) {
  if (!is_here(source)) wire_.forget_eager(name, source);
}

void ClusterFabric::send(SpId to, std::span<const std::byte> message) {
  if (is_here(to)) {
    rings_.send(to, message);
  } else {
    wire_.send(to, message);
  }
}

}  // namespace outrigger::fabric::ucx
