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

// The result of an ended operation.
struct CompletionRecord {
  CompletionStatus status = CompletionStatus::ok;
  std::array<std::uint64_t, kReachCount> bytes_by_reach{};  // bytes received by this rank, index Reach
  std::uint32_t late_announcements = 0;                     // peers' announcements that came before this rank's post
  WorldRank passed_by;                                      // for passed_natively
};

class RankView {
 public:
  // Writes the mark of `source`'s block into the destination rank's memory, which outlives this service process. Called
  // after the bytes are placed, or the move has failed, and before the source is released.
  virtual void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) = 0;

  // All receive blocks of a kept operation are in place and marked: its rank may continue, while its memory stays as it
  // is until complete(). Called at most once per posted slot, before complete(), with the same record. This is a hint
  // that a view may ignore.
  virtual void filled(WorldRank rank, SlotIndex slot, const CompletionRecord& record) = 0;

  // Makes the end of an operation visible to its rank, which polls its own memory. Called once per posted slot.
  virtual void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) = 0;

  // True if a local rank has left the operation to its native MPI (protocol/native_calls.hpp). Ranks that posted it had
  // made `native_calls` native calls before. False also if this is not visible.
  [[nodiscard]] virtual bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) = 0;

 protected:
  ~RankView() = default;
};

}  // namespace outrigger::fabric
