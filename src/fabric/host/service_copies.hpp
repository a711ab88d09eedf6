// What this process copies itself: a queue of chunks, served round robin, each by the lane that its memory allows.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>

#include "fabric/host/lanes/direct.hpp"
#include "fabric/host/lanes/relay.hpp"
#include "fabric/host/moves.hpp"
#include "fabric/host/node_ranks.hpp"

namespace outrigger::fabric {

class ServiceCopies {
 public:
  ServiceCopies(NodeRanks& ranks, Moves& moves) : ranks_(ranks), moves_(moves), queue_(moves) {}

  [[nodiscard]] ChunkQueue& queue() { return queue_; }
  [[nodiscard]] const ChunkQueue& queue() const { return queue_; }

  struct Turn {
    std::uint64_t chunk_bytes = 0;
    std::uint64_t bytes = 0;  // but one chunk at least
    std::uint32_t chunks = 0;
  };
  // True: anything.
  bool copy_some(const Turn& turn);

  // Of the last cache of this process's processor. 0: not known.
  void set_cache_bytes(std::uint64_t bytes) { cache_bytes_ = bytes; }
  // How mapped memory is copied now.
  [[nodiscard]] CopyKernel kernel() const;

 private:
  // Says by which lane.
  [[nodiscard]] MoveStatus copy_chunk(const Chunk& chunk, copy::Lane& lane);

  NodeRanks& ranks_;
  Moves& moves_;
  ChunkQueue queue_;
  Relay relay_;
  std::uint64_t cache_bytes_ = 0;
};

}  // namespace outrigger::fabric
