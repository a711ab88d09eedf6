// Writes trace events of a service process to the event memory of each of its ranks (trace/event_memory.hpp).
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
  // CLOCK_MONOTONIC, as in events.
  [[nodiscard]] static std::int64_t now_ns();

  // Adds a rank that this service process serves. Error: it is not event memory.
  [[nodiscard]] Status add_rank(WorldRank rank, const UniqueFd& memory);
  void remove(WorldRank rank);

  void taken(const engine::PostedOperation& operation);
  void ended(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record);
  // A move between two ranks, one of which this service process may serve. A move of neither is recorded for any of its
  // ranks.
  void moved(WorldRank from, WorldRank to, const trace::Event& event);

 private:
  struct Rank {
    trace::Memory memory;
    std::vector<std::optional<OperationId>> open;  // by slot number, which is small and reused
  };
  [[nodiscard]] Rank* find(WorldRank rank);

  // The ranks that this service process serves, unsorted: few enough for a linear search.
  std::vector<WorldRank> numbers_;
  std::vector<Rank> ranks_;
};

}  // namespace outrigger::service
