// State shared by all operations of one engine: the fabric's seams, the scheduler, the window and the messages to
// peers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/core/pool.hpp"
#include "engine/core/scheduler.hpp"
#include "engine/core/window.hpp"
#include "engine/engine_config.hpp"
#include "engine/engine_counters.hpp"
#include "engine/registry.hpp"
#include "fabric/seams.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Context {
 public:
  Context(const EngineConfig& engine_config, const fabric::Seams& seams)
      : config(engine_config),
        fabric(seams),
        window(scheduler, engine_config.limits.window_moves),
        near_window(scheduler, engine_config.limits.near_window_moves),
        registry(engine_config.registry != nullptr ? *engine_config.registry : built_in_algorithms()),
        local_ranks(static_cast<std::size_t>(std::ranges::count(config.sp_of_rank, config.self))) {}

  [[nodiscard]] SpId service_of(WorldRank rank) const { return config.sp_of_rank[rank.value()]; }
  [[nodiscard]] bool knows(WorldRank rank) const { return rank.value() < config.sp_of_rank.size(); }
  [[nodiscard]] bool is_local(WorldRank rank) const { return knows(rank) && service_of(rank) == config.self; }
  // A service process that is not in the table has a node of its own.
  [[nodiscard]] std::uint32_t node_of(SpId service) const {
    const std::vector<std::uint32_t>& nodes = config.node_of_sp;
    return service.value() < nodes.size() ? nodes[service.value()] : ~service.value();
  }
  [[nodiscard]] bool share_node(SpId a, SpId b) const { return node_of(a) == node_of(b); }
  [[nodiscard]] bool is_dropped(WorldRank rank) const { return dropped_ranks.contains(rank); }

  // Incarnation of a peer; 0 until its first message.
  [[nodiscard]] Epoch epoch_of(SpId peer) const {
    const auto found = peer_epochs.find(peer);
    return found == peer_epochs.end() ? Epoch{0} : found->second;
  }

  void send(SpId to, const OperationId& operation, peer::Body body) {
    buffer.clear();
    peer::Message message;
    message.header.from_epoch = config.epoch;
    message.header.to_epoch = epoch_of(to);
    message.header.operation = operation;
    message.body = std::move(body);
    peer::encode(message, buffer);
    EngineCounters::Messages& sent = counters.sent[message.body.index()];
    ++sent.count;
    sent.bytes += buffer.size();
    fabric.messenger.send(to, buffer);
  }

  static void raise(std::uint64_t& highest, std::uint64_t value) { highest = std::max(highest, value); }

  const EngineConfig config;
  const fabric::Seams fabric;
  Pool frames;  // coroutine frames
  Pool memory;  // operations and their local ranks
  Scheduler scheduler;
  Window window;
  Window near_window;  // of moves within the node, unless they share the other one
  const Registry& registry;
  const std::size_t local_ranks;  // also those that are lost
  std::unordered_map<SpId, Epoch> peer_epochs;
  std::unordered_set<WorldRank> dropped_ranks;
  EngineCounters counters;
  std::vector<OperationId> ended;  // operations in which a rank has completed since remove_ended()

 private:
  std::vector<std::byte> buffer;  // encoding buffer, kept to save allocations
};

}  // namespace outrigger::engine
