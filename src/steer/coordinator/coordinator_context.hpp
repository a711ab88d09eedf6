// Shared by the parts of a coordinator: who it is, the service process that it runs in, and which peers and ranks are
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "steer/coordinator/messages.hpp"

namespace outrigger::steer {

struct CoordinatorConfig {
  SpId self;
  Epoch epoch{1};
  std::vector<SpId> sp_of_rank;  // indexed by world rank: the service process that serves it
};

// The service process as its coordinator needs it.
class CoordinatorHost {
 public:
  CoordinatorHost() = default;
  CoordinatorHost(const CoordinatorHost&) = delete;
  CoordinatorHost& operator=(const CoordinatorHost&) = delete;
  virtual ~CoordinatorHost() = default;

  // To another service process: ordered per pair, not lost while both live. The bytes are copied before the return.
  virtual void send(SpId to, std::span<const std::byte> message) = 0;
  // Holds a local rank's calls on a communicator (steer/plan/dispatch_plan.hpp): from now on it waits in the next one.
  // How many it has begun; nothing: it cannot be held, and is not.
  [[nodiscard]] virtual std::optional<std::uint64_t> hold_calls(WorldRank rank, const GroupId& group) = 0;
  // Releases it. `change`: applies from then on; nullptr if nothing changes.
  virtual void resume_calls(WorldRank rank, const GroupId& group, const PlanChange* change) = 0;
};

class Context {
 public:
  Context(CoordinatorConfig coordinator_config, CoordinatorHost& coordinator_host)
      : config(std::move(coordinator_config)), host(coordinator_host) {}

  [[nodiscard]] bool knows(WorldRank rank) const { return rank.value() < config.sp_of_rank.size(); }
  [[nodiscard]] SpId service_of(WorldRank rank) const { return config.sp_of_rank[rank.value()]; }
  // Served here, and not gone.
  [[nodiscard]] bool serves(WorldRank rank) const {
    return knows(rank) && service_of(rank) == config.self && !dropped.contains(rank);
  }
  // Incarnation of a peer; 0 while nothing has been heard of it.
  [[nodiscard]] Epoch epoch_of(SpId peer) const {
    const auto found = peer_epochs.find(peer);
    return found == peer_epochs.end() ? Epoch{0} : found->second;
  }
  void send(SpId to, const OperationId& about, const Body& body) {
    std::vector<std::byte> bytes;
    encode(Message{{config.epoch, epoch_of(to), about}, body}, bytes);
    host.send(to, bytes);
  }

  const CoordinatorConfig config;
  CoordinatorHost& host;
  std::unordered_map<SpId, Epoch> peer_epochs;
  std::unordered_set<WorldRank> dropped;
};

}  // namespace outrigger::steer
