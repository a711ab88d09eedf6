// A fabric for measuring the engine itself: every move ends at the next progress(). There are no messages, as one
// service process serves all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/sim/bare_fabric.hpp"

namespace outrigger {

class InstantFabric final : public fabric::sim::BareFabric {
 public:
  void move(const Block& /*from*/, const Block& /*to*/, const BlockId* /*name*/,
            fabric::MoveCompletion& completion) override {
    moves_.push_back(&completion);
  }
  void cancel(fabric::MoveCompletion& completion) override { std::erase(moves_, &completion); }
  void send(SpId /*to*/, std::span<const std::byte> /*message*/) override { ++sent; }
  void mark_block(WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/, BlockMark /*mark*/) override {
    ++marks;
  }
  void complete(WorldRank /*rank*/, SlotIndex /*slot*/, const fabric::CompletionRecord& /*record*/) override {
    ++completions;
  }

  // False if there was none.
  bool progress() {
    if (moves_.empty()) return false;
    std::swap(moves_, ending_);
    for (fabric::MoveCompletion* completion : ending_) completion->moved(fabric::MoveOutcome());
    ending_.clear();
    return true;
  }

  std::uint64_t marks = 0;
  std::uint64_t completions = 0;
  std::uint64_t sent = 0;

 private:
  std::vector<fabric::MoveCompletion*> moves_;
  std::vector<fabric::MoveCompletion*> ending_;
};

}  // namespace outrigger
