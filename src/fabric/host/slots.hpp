// Operations as their ranks see them: marks of what has been delivered, and completions.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/host/node_ranks.hpp"

namespace outrigger::fabric {

class Slots {
 public:
  explicit Slots(NodeRanks& ranks) : ranks_(ranks) {}

  void add_rank(WorldRank rank);
  void drop_rank(WorldRank rank);
  // As in HostFabric.
  [[nodiscard]] bool open(WorldRank rank, SlotIndex slot);
  void set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size);
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source);
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record);

  // Completions that wait for late copies into their rank's memory.
  struct Deferred {
    WorldRank rank;
    SlotIndex slot;
    CompletionRecord record;
  };
  void defer(const Deferred& completion) { deferred_.push_back(completion); }
  [[nodiscard]] std::size_t deferred() const { return deferred_.size(); }
  [[nodiscard]] std::vector<Deferred> take_deferred();

 private:
  struct OpenSlot {
    bool open = false;
    LocalRef marks;
    std::uint32_t group_size = 0;
  };

  // Null: no such rank or slot.
  [[nodiscard]] OpenSlot* find(WorldRank rank, SlotIndex slot);

  NodeRanks& ranks_;
  std::vector<std::vector<OpenSlot>> slots_;  // by world rank; empty: it is not here
  std::vector<Deferred> deferred_;
};

}  // namespace outrigger::fabric
