// Invariants of every simulated job, checked at each event, when the job is quiet, and at the end. Bytes are in place
// before they are marked, and marks come before completion. Nothing is read or written after completion. No rank waits
// without need, and nothing is left over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "sim/job_state.hpp"

namespace outrigger::sim {

class Invariants {
 public:
  explicit Invariants(JobState& job) : job_(job) {}

  // Before a chunk's bytes are touched.
  void chunk_moves(SpId by, const Block& from, const Block& to);
  void eager_read(SpId by, const Block& from);
  void marked(SpId by, WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark);
  // nullptr if there is no such operation to complete.
  [[nodiscard]] Slot* completing(SpId by, WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record);
  void sent(std::span<const std::byte> message);
  // The job is quiet while some ranks are absent.
  void check_waiting();
  void check_end();

 private:
  [[nodiscard]] Block marked_block(const Slot& slot, GroupRank source) const;
  void count_crossing(const Slot& target, const Block& from, const Block& to);
  [[nodiscard]] bool image_holds(WorldRank rank, const Slot& slot);
  [[nodiscard]] CompletionStatus expected_status(const Slot& slot, const OperationPlan& plan) const;
  void check_disagreement(WorldRank rank, const Slot& slot, CompletionStatus status);
  void check_completion(WorldRank rank, const Slot& slot, const fabric::CompletionRecord& record);
  void check_bytes(const Slot& slot, const std::string& what, const fabric::CompletionRecord& record);
  [[nodiscard]] bool may_wait(const Slot& slot) const;
  [[nodiscard]] bool may_keep_announcements(SpId service) const;
  [[nodiscard]] bool all_have_posted(const Slot& slot) const;

  JobState& job_;
  // For each byte of a block, the rank to which it came from another node (nullopt: none yet). By group, sequence,
  // source, node.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::size_t, std::uint32_t>, std::vector<std::optional<WorldRank>>>
      crossed_;
};

}  // namespace outrigger::sim
