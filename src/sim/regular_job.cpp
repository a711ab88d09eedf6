#include "sim/regular_job.hpp"

namespace outrigger::sim {

engine::EngineConfig Places::engine_config() const {
  engine::EngineConfig config;
  config.sp_of_rank.reserve(ranks());
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) config.sp_of_rank.emplace_back(service_of(rank));
  for (std::uint32_t sp = 0; sp < services(); ++sp) config.node_of_sp.push_back(node_of_service(sp));
  config.limits.window_moves = engine::window_moves_for(shape_.nodes, shape_.services);
  return config;
}

std::shared_ptr<const std::vector<WorldRank>> Places::all_ranks() const {
  std::vector<WorldRank> members;
  members.reserve(ranks());
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) members.emplace_back(rank);
  return std::make_shared<const std::vector<WorldRank>>(std::move(members));
}

engine::PostedOperation regular_post(const RegularCall& call, const OperationId& id,
                                     const std::shared_ptr<const std::vector<WorldRank>>& members, std::uint32_t rank) {
  engine::PostedOperation operation;
  operation.rank = WorldRank{rank};
  operation.slot = SlotIndex{rank};
  operation.id = id;
  operation.members = members;
  operation.me = GroupRank{rank};
  operation.collective = call.collective;
  operation.algorithm = call.algorithm;
  operation.own_block_done = true;
  operation.send.base.owner = operation.receive.base.owner = operation.rank;
  operation.send.block_bytes = operation.receive.block_bytes = call.block_bytes;
  operation.receive.stride_bytes = static_cast<std::int64_t>(call.block_bytes);
  if (call.collective == Collective::ibcast) {
    operation.root = call.root;
    operation.own_block_done = rank == call.root;
    operation.receive.only = GroupRank{call.root};
    operation.receive.stride_bytes = 0;
    (rank == call.root ? operation.receive : operation.send).block_bytes = 0;
  } else if (call.collective == Collective::iallgatherv) {
    for (std::uint64_t source = 0; source < members->size(); ++source) {
      const auto offset = static_cast<std::int64_t>(source * call.block_bytes);
      operation.receive.extents.push_back(PairExtent{offset, call.block_bytes});
    }
  } else if (call.collective == Collective::iallreduce) {
    operation.own_block_done = false;
    operation.receive.stride_bytes = 0;
    operation.reduction = Reduction{ReduceOperation::sum, ElementType::float32};
    operation.receive.base.address = call.block_bytes;  // the result lies behind the contribution
  }
  operation.digest =
      operation_digest(call.collective, call.algorithm, operation.root, static_cast<std::uint32_t>(members->size()), 0);
  return operation;
}

}  // namespace outrigger::sim
