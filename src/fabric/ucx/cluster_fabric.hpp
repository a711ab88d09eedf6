// Blocks and messages in a job of several nodes: the node's mover and rings serve this node, the wire serves the
// others.
//
// Thread rule: one thread.
#pragma once

#include <vector>

#include "fabric/block_mover.hpp"
#include "fabric/peer_messenger.hpp"
#include "fabric/ucx/staged_reductions.hpp"
#include "fabric/ucx/wire.hpp"
#include "protocol/wire/job_map.hpp"

namespace outrigger::fabric::ucx {

class ClusterFabric final : public BlockMover, public PeerMessenger {
 public:
  // All three must outlive this.
  ClusterFabric(BlockMover& node, PeerMessenger& rings, Wire& wire, const JobMap& job_map, SpId self);

  void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) override;
  // Fetches blocks of other nodes first; `into` belongs to a rank of this node.
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, MoveCompletion& completion) override;
  void cancel(MoveCompletion& completion) override;
  void send_eager(const BlockId& name, const Block& from, SpId reader) override;
  void withdraw_eager(const BlockId& name) override;
  void forget_eager(const BlockId& name, SpId source) override;
  void send(SpId to, std::span<const std::byte> message) override;

 private:
  [[nodiscard]] bool is_here(SpId sp) const { return sp.value() - first_here_ < count_here_; }

  BlockMover& node_;
  PeerMessenger& rings_;
  Wire& wire_;
  StagedReductions reductions_;
  std::vector<SpId> sp_of_rank_;
  std::uint32_t first_here_;
  std::uint32_t count_here_;
};

}  // namespace outrigger::fabric::ucx
