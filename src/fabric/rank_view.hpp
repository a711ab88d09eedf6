// Writes what ranks see of their operations: one of the three seams under the engine (fabric/seams.hpp).
//
// Thread rule: one thread. Nothing here blocks.
#pragma once

#include <array>
#include <cstdint>

#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"

namespace outrigger::fabric {

// What a rank is told of an operation that has ended.
struct CompletionRecord {
  CompletionStatus status = CompletionStatus::ok;
  std::array<std::uint64_t, kReachCount> bytes_by_reach{};  // bytes received by this rank, index Reach
  std::uint32_t late_announcements = 0;  // peers' announcements that were here before this rank posted
  WorldRank passed_by;                   // of passed_natively
};

class RankView {
 public:
  // Writes the delivered mark of `source`'s block into the destination rank's memory, which outlives this service
  // process. Called after the bytes are placed and before the source is released.
  virtual void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) = 0;

  // A kept operation's rank may be told that all its receive blocks are in its memory, each marked as delivered: it
  // goes on, while its memory stays as it is until complete(). At most once for each posted slot, before complete(),
  // with the record that complete() would have then. Only a hint: a view that does nothing of it is right, too.
  virtual void filled(WorldRank rank, SlotIndex slot, const CompletionRecord& record) = 0;

  // Makes the end of an operation visible to its rank, which polls its own memory. Called once per posted slot.
  virtual void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) = 0;

  // Has a rank here left the operation to its MPI (protocol/native_calls.hpp)? Ranks that have posted it had made
  // `native_calls` native calls before. False also where it cannot be seen.
  [[nodiscard]] virtual bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) = 0;

 protected:
  ~RankView() = default;
};

}  // namespace outrigger::fabric
