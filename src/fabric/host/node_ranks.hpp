// The ranks of this node whose memory this process knows, by world rank.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "copy/policy.hpp"
#include "fabric/host/rank_memory.hpp"
#include "protocol/memory.hpp"

namespace outrigger::fabric {

class NodeRanks {
 public:
  void add(WorldRank rank, RankMemory memory) {
    if (rank.value() >= ranks_.size()) ranks_.resize(std::size_t{rank.value()} + 1);
    ranks_[rank.value()].emplace(std::move(memory));
  }
  void remove(WorldRank rank) {
    if (find(rank) != nullptr) ranks_[rank.value()].reset();
  }
  // nullptr if it is not here. Valid until the next add().
  [[nodiscard]] RankMemory* find(WorldRank rank) {
    if (rank.value() >= ranks_.size() || !ranks_[rank.value()]) return nullptr;
    return &*ranks_[rank.value()];
  }
  [[nodiscard]] copy::Memory kind_of(const MemoryRef& memory) {
    if (memory.region != kPrivateRegion && !is_keyed(memory.region)) return copy::Memory::mapped;
    const RankMemory* owner = find(memory.owner);
    if (owner != nullptr && owner->known_as(memory.region) != kPrivateRegion) return copy::Memory::mapped;
    return owner != nullptr && owner->attachable() ? copy::Memory::attachable : copy::Memory::private_memory;
  }

 private:
  std::vector<std::optional<RankMemory>> ranks_;
};

}  // namespace outrigger::fabric
