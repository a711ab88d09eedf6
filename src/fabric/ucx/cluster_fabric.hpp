// The fabric of a service process in a job of several nodes: what is on its own node goes through the node's fabric,
// what is not through the wire.
//
// Thread rule: one thread.
#pragma once

#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/ucx/staged_reductions.hpp"
#include "fabric/ucx/wire.hpp"
#include "protocol/wire/job_map.hpp"

namespace outrigger::fabric::ucx {

class ClusterFabric final : public Fabric {
 public:
  // Both must outlive this.
  ClusterFabric(Fabric& node, Wire& wire, const JobMap& job_map, SpId self);

  void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) override;
  // Blocks of other nodes are brought here first; `into` is a rank's of this node.
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, MoveCompletion& completion) override;
  void cancel(MoveCompletion& completion) override;
  void send_eager(const BlockId& name, const Block& from, SpId reader) override;
  void withdraw_eager(const BlockId& name) override;
  void forget_eager(const BlockId& name, SpId source) override;
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) override;
  void filled(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;
  [[nodiscard]] std::optional<std::uint64_t> hold_calls(WorldRank rank, const GroupId& group) override {
    return node_.hold_calls(rank, group);
  }
  void resume_calls(WorldRank rank, const GroupId& group, const CoursePlan* plan) override {
    node_.resume_calls(rank, group, plan);
  }
  [[nodiscard]] bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) override {
    return node_.has_passed(rank, operation, native_calls);
  }

 private:
  [[nodiscard]] bool is_here(SpId sp) const { return sp.value() - first_here_ < count_here_; }

  Fabric& node_;
  Wire& wire_;
  StagedReductions reductions_;
  std::vector<SpId> sp_of_rank_;
  std::uint32_t first_here_;
  std::uint32_t count_here_;
};

}  // namespace outrigger::fabric::ucx
