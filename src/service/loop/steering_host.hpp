// Adapts this service process to the coordinator of dispatch plans (steer/coordinator): messages to its peers, and
// plans in the segments of its ranks.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "fabric/host/host_fabric.hpp"
#include "fabric/peer_messenger.hpp"
#include "steer/coordinator/coordinator.hpp"

namespace outrigger::service {

class SteeringHost final : public steer::CoordinatorHost {
 public:
  // `node`: has the ranks' memory. Must outlive this.
  explicit SteeringHost(fabric::HostFabric& node) : node_(node) {}

  // Before the coordinator sends anything. Must outlive this.
  void send_by(fabric::PeerMessenger& messenger) { messenger_ = &messenger; }
  // The number of the rank's plan for the group, read at each post; an invalid number means none.
  void learn(WorldRank rank, const GroupId& group, PlanNumber number);
  // The rank reuses the entry.
  void forget(WorldRank rank, const GroupId& group);
  void forget_rank(WorldRank rank) { numbers_.erase(rank); }
  // The times that the rank measured in its last trial.
  [[nodiscard]] std::optional<steer::TrialTimes> times(WorldRank rank, const GroupId& group) const;

  void send(SpId to, std::span<const std::byte> message) override { messenger_->send(to, message); }
  [[nodiscard]] std::optional<std::uint64_t> hold_calls(WorldRank rank, const GroupId& group) override;
  void resume_calls(WorldRank rank, const GroupId& group, const steer::PlanChange* change) override;

 private:
  // nullptr if there is none.
  [[nodiscard]] steer::PlanEntry* find(WorldRank rank, const GroupId& group) const;

  fabric::HostFabric& node_;
  fabric::PeerMessenger* messenger_ = nullptr;
  std::unordered_map<WorldRank, std::unordered_map<GroupId, PlanNumber>> numbers_;
};

}  // namespace outrigger::service
