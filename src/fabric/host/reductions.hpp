// Reductions in flight within the node. This process makes them itself, chunk by chunk, round-robin like moves.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "fabric/block_mover.hpp"
#include "fabric/finished_moves.hpp"
#include "fabric/memory_reducer.hpp"

namespace outrigger::fabric {

class Reductions {
 public:
  // Chunks of the result have MemoryReducer's size; with many operands they are smaller, so that others have their
  // turn.
  static constexpr std::uint64_t kLeastChunkBytes = 16U << 10;
  static constexpr std::uint64_t kTurnBytes = 512U << 10;  // of all operands

  explicit Reductions(NodeMemory& memory) : reducer_(memory) {}

  void start(ReduceRanges ranges, std::uint64_t bytes, MoveCompletion& completion) {
    queue_.push_back(Started{std::move(ranges), bytes, 0, &completion});
  }
  void forget(const MoveCompletion& completion);
  // Reduces about this many bytes of operands, at least a chunk. False if there was nothing.
  bool reduce_some(std::uint64_t bytes);
  bool deliver_ended() { return finished_.deliver(); }

  [[nodiscard]] std::size_t in_flight() const { return queue_.size() + finished_.size(); }

 private:
  struct Started {
    ReduceRanges ranges;
    std::uint64_t bytes = 0;
    std::uint64_t done_bytes = 0;
    MoveCompletion* completion = nullptr;
    Reach reach = Reach::mapped;
  };
  [[nodiscard]] static std::uint64_t chunk_bytes(const Started& started);
  // Reduces one chunk. True: the reduction has ended.
  [[nodiscard]] bool go_on(Started& started);

  MemoryReducer reducer_;
  std::deque<Started> queue_;
  FinishedMoves finished_;
};

}  // namespace outrigger::fabric
