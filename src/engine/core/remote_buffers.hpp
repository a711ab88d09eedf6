// What each rank of a group has announced to all local ranks alike, in one operation. One each, shared by the local
// ranks, so that the regular collectives need no addresses per pair.
#pragma once

#include <cstdint>

#include "engine/core/group.hpp"
#include "engine/core/pool.hpp"
#include "engine/engine.hpp"

namespace outrigger::engine {

struct RemoteBuffer {
  // Regular: the block for (or from) group rank i is `block_bytes` at base + i * stride_bytes. 0 bytes: not known.
  std::uint64_t base = 0;
  std::int64_t stride_bytes = 0;
  std::uint64_t block_bytes = 0;
  RegionId region;
  Epoch epoch;  // incarnation of the rank's service process that has announced last
};

class RemoteBuffers {
 public:
  // Once. Until then nothing is known of anybody.
  void make(Pool& pool, std::size_t group_size) { buffers_.make(pool, group_size, RemoteBuffer()); }

  [[nodiscard]] const RemoteBuffer& operator[](GroupRank rank) const { return buffers_[index_of(rank)]; }

  // What is known stays: a rank's buffers do not change within an operation, and moves may be under way.
  void learn(GroupRank rank, const BlockLayout& layout, Epoch epoch) {
    RemoteBuffer& buffer = buffers_[index_of(rank)];
    buffer.epoch = epoch;
    buffer.region = layout.base.region;
    if (buffer.block_bytes != 0 || !layout.extents.empty()) return;
    buffer.base = layout.base.address;
    buffer.stride_bytes = layout.stride_bytes;
    buffer.block_bytes = layout.block_bytes;
  }

 private:
  PooledArray<RemoteBuffer> buffers_;  // by group rank
};

}  // namespace outrigger::engine
