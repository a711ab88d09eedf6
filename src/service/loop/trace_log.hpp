// Where a service process notes what it does for its ranks: in the memory of each rank for events
// (trace/event_memory.hpp).
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "engine/engine.hpp"
#include "trace/event_memory.hpp"

namespace outrigger::service {

class TraceLog {
 public:
  // CLOCK_MONOTONIC, as events have it.
  [[nodiscard]] static std::int64_t now_ns();

  // Of a rank that this service process serves. Error: it is no memory for events.
  [[nodiscard]] Status add_rank(WorldRank rank, const UniqueFd& memory);
  void remove(WorldRank rank);

  void taken(const engine::PostedOperation& operation);
  void ended(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record);
  // Between the two ranks, one of which this service process may serve. What it does for neither is noted for any of
  // its ranks.
  void moved(WorldRank from, WorldRank to, const trace::Event& event);

 private:
  struct Rank {
    trace::Memory memory;
    std::vector<std::optional<OperationId>> open;  // by slot, which are few and used again
  };
  [[nodiscard]] Rank* find(WorldRank rank);

  // Those that this service process serves, in no order: few, and looked through for each event.
  std::vector<WorldRank> numbers_;
  std::vector<Rank> ranks_;
};

}  // namespace outrigger::service
