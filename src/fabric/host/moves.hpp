// Moves in flight within the node, and their chunks.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "copy/policy.hpp"
#include "fabric/block_mover.hpp"

namespace outrigger::fabric {

struct HostMove {
  Block from;
  Block to;
  MoveCompletion* completion = nullptr;
  std::uint64_t left_bytes = 0;  // not settled yet
  std::uint32_t lent = 0;        // chunks that lenders hold
  MoveStatus status = MoveStatus::ok;
  copy::Lane lane = copy::Lane::direct;  // the slowest lane of its chunks
  std::list<HostMove>::iterator self;
};

// Some bytes of a move, in one queue or with one lender.
struct Chunk {
  HostMove* move = nullptr;  // nullptr: cancelled while a lender held it
  WorldRank destination;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  // Keeps at most `most` bytes here and returns the rest, which may be empty.
  [[nodiscard]] Chunk cut(std::uint64_t most) {
    Chunk rest = *this;
    bytes = std::min(bytes, most);
    rest.offset += bytes;
    rest.bytes -= bytes;
    return rest;
  }
};

class Moves;

// Chunks that wait to be copied. A move that fails or is cancelled is removed from all queues.
class ChunkQueue {
 public:
  explicit ChunkQueue(Moves& moves);
  ~ChunkQueue();
  ChunkQueue(const ChunkQueue&) = delete;
  ChunkQueue& operator=(const ChunkQueue&) = delete;

  [[nodiscard]] bool empty() const { return chunks_.empty(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t chunks() const { return chunks_.size(); }
  [[nodiscard]] const Chunk& front() const { return chunks_.front(); }
  void push_back(const Chunk& chunk) {
    chunks_.push_back(chunk);
    bytes_ += chunk.bytes;
  }
  void push_front(const Chunk& chunk) {
    chunks_.push_front(chunk);
    bytes_ += chunk.bytes;
  }
  [[nodiscard]] Chunk pop() {
    assert(!chunks_.empty() && "the queue is not empty");
    const Chunk chunk = chunks_.front();
    chunks_.pop_front();
    bytes_ -= chunk.bytes;
    return chunk;
  }
  void move_all_to(ChunkQueue& other);
  void forget(const HostMove& move);

 private:
  Moves& moves_;
  std::deque<Chunk> chunks_;
  std::uint64_t bytes_ = 0;
};

class Moves {
 public:
  Moves() = default;
  Moves(const Moves&) = delete;
  Moves& operator=(const Moves&) = delete;

  [[nodiscard]] HostMove& start(const Block& from, const Block& to, MoveCompletion& completion);
  // The chunk's bytes are in place, or could not be copied: then the move has failed and its other chunks are dropped.
  void settle(const Chunk& chunk, MoveStatus status, copy::Lane lane);
  // A lender has returned the chunk. False: its move has failed meanwhile, and may have ended now.
  [[nodiscard]] bool take_back(const Chunk& chunk);
  // Its caller will not be told. nullptr if it has ended; otherwise it is in no queue any more, and the caller retires
  // it.
  [[nodiscard]] HostMove* forget(MoveCompletion& completion);
  void retire(HostMove& move);
  // Tells callers of ended moves. They may start and cancel moves.
  bool deliver_ended();

  [[nodiscard]] std::size_t in_flight() const { return moves_.size() + ended_.size(); }
  [[nodiscard]] bool any_ended() const { return !ended_.empty(); }
  [[nodiscard]] std::uint64_t bytes_under_way() const { return bytes_under_way_; }

 private:
  friend class ChunkQueue;
  struct Ended {
    MoveCompletion* completion;
    MoveOutcome outcome;
  };

  void forget_queued(const HostMove& move);
  void end_if_over(HostMove& move);

  std::list<HostMove> moves_;
  std::list<HostMove> spare_;  // for reuse
  std::deque<Ended> ended_;    // to be told
  std::vector<ChunkQueue*> queues_;
  std::uint64_t bytes_under_way_ = 0;
};

}  // namespace outrigger::fabric
