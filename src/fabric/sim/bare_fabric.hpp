// All three seams for tests, and for counting an engine's actions: nothing is reduced or sent eagerly, and no rank is
// held or told early.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>

#include "fabric/seams.hpp"

namespace outrigger::fabric::sim {

class BareFabric : public BlockMover, public PeerMessenger, public RankView {
 public:
  [[nodiscard]] Seams seams() { return {*this, *this, *this}; }

  void reduce(const Reduction& /*reduction*/, std::span<const Block> /*operands*/, std::span<const BlockId> /*names*/,
              const Block& /*into*/, MoveCompletion& /*completion*/) override {
    std::abort();  // no reduction is posted here: a bug
  }
  void send_eager(const BlockId& /*name*/, const Block& /*from*/, SpId /*reader*/) override {}
  void withdraw_eager(const BlockId& /*name*/) override {}
  void forget_eager(const BlockId& /*name*/, SpId /*source*/) override {}
  void filled(WorldRank /*rank*/, SlotIndex /*slot*/, const CompletionRecord& /*record*/) override {}
  [[nodiscard]] bool has_passed(WorldRank /*rank*/, const OperationId& /*operation*/,
                                std::uint32_t /*native_calls*/) override {
    return false;
  }

 protected:
  ~BareFabric() = default;
};

}  // namespace outrigger::fabric::sim
