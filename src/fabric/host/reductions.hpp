// Reductions within the node while they are under way: served by chunks in turn, as moves are, by this process itself.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "fabric/fabric.hpp"
#include "fabric/finished_moves.hpp"
#include "fabric/memory_reducer.hpp"

namespace outrigger::fabric {

class Reductions {
 public:
  // Half of a usual second-level cache holds a chunk of all three ranges.
  static constexpr std::uint64_t kChunkBytes = 64U << 10;

  explicit Reductions(NodeMemory& memory) : reducer_(memory) {}

  void start(const ReduceRanges& ranges, std::uint64_t bytes, MoveCompletion& completion) {
    queue_.push_back(Started{ranges, bytes, 0, &completion});
  }
  void forget(const MoveCompletion& completion);
  // About so many bytes of results, a chunk at least. True: anything.
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
  // One chunk. True: it has ended.
  [[nodiscard]] bool go_on(Started& started, std::uint64_t& chunk_bytes);

  MemoryReducer reducer_;
  std::deque<Started> queue_;
  FinishedMoves finished_;
};

}  // namespace outrigger::fabric
