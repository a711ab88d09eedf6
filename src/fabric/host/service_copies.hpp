// Copies by this process itself: a queue of chunks, served round-robin, each by the lane that its memory allows.
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
    std::uint64_t bytes = 0;  // but at least one chunk
    std::uint32_t chunks = 0;
  };
  // False if there was nothing.
  bool copy_some(const Turn& turn);

  // Size of the processor's last-level cache. 0: unknown.
  void set_cache_bytes(std::uint64_t bytes) { cache_bytes_ = bytes; }
  // The present method for mapped memory.
  [[nodiscard]] CopyKernel kernel() const;

 private:
  // Sets `lane` to the one used.
  [[nodiscard]] MoveStatus copy_chunk(const Chunk& chunk, copy::Lane& lane);

  NodeRanks& ranks_;
  Moves& moves_;
  ChunkQueue queue_;
  Relay relay_;
  std::uint64_t cache_bytes_ = 0;
};

}  // namespace outrigger::fabric
