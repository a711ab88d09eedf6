// Addresses of both ends of a local rank's blocks: its own, as posted, and its peers', as announced. Both ends of a
// move are trimmed to the shorter one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/core/group.hpp"
#include "engine/core/pair_table.hpp"
#include "engine/core/pool.hpp"
#include "engine/posted_operation.hpp"

namespace outrigger::engine {

// The buffer that a rank of the group has announced for one operation. All local ranks share it, so regular collectives
// need no address per pair.
struct RemoteBuffer {
  // Regular collectives: the block for (or from) group rank i has `block_bytes` at base + i * stride_bytes. 0 bytes:
  // unknown.
  std::uint64_t base = 0;
  std::int64_t stride_bytes = 0;
  std::uint64_t block_bytes = 0;
  RegionId region;
  Epoch epoch;  // incarnation of the service process that announced last
};

class RemoteBuffers {
 public:
  // Called once; all buffers are unknown until learn().
  void make(Pool& pool, std::size_t group_size) { buffers_.make(pool, group_size, RemoteBuffer()); }

  [[nodiscard]] const RemoteBuffer& operator[](GroupRank rank) const { return buffers_[index_of(rank)]; }

  // Keeps what is known: a rank's buffers do not change within an operation, and moves may be in flight.
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

// The other end of a pair, as announced.
struct RemoteBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// Takes 16 bytes a pair where peers announce extents, else nothing.
class BlockMap {
 public:
  // All arguments but `posted` belong to the operation and outlive this object.
  BlockMap(PostedOperation&& posted, const Membership& membership, const RemoteBuffers& buffers, const PairTable& pairs)
      : posted_(std::move(posted)), membership_(membership), buffers_(buffers), pairs_(pairs) {}

  [[nodiscard]] const PostedOperation& posted() const { return posted_; }

  [[nodiscard]] std::uint64_t expected_bytes(GroupRank source) const { return posted_.receive.bytes(source); }
  [[nodiscard]] std::uint64_t owed_bytes(GroupRank destination) const { return posted_.send.bytes(destination); }
  // 0 bytes until the pair has been ready.
  [[nodiscard]] RemoteBlock remote(GroupRank peer) const;
  void learn_extent(Pool& pool, GroupRank peer, const RemoteBlock& extent);

  // Reductions: the first ranks of the group that contribute to this rank's result (exscan: including this rank).
  [[nodiscard]] std::size_t contributors() const {
    return is_prefix(posted_.collective) ? index_of(posted_.me) + 1 : membership_.size();
  }
  // True if the source has a block for this rank: a contribution, or with `rooted` the root's result.
  [[nodiscard]] bool has_block_of(GroupRank source) const {
    if (posted_.algorithm != Algorithm::rooted || membership_.size() == 1) return index_of(source) < contributors();
    return (source.value() == posted_.root) != (posted_.me.value() == posted_.root);
  }
  // The source's whole contribution. The receive side is cut into slices by owner (slices.hpp).
  [[nodiscard]] Block contribution(GroupRank source) const { return remote_block(source, posted_.send.block_bytes); }

  // Bytes that a pull from the source moves.
  [[nodiscard]] std::uint64_t pull_bytes(GroupRank source) const;
  // Both ends of the pair's move. Never empty once the peer was ready.
  [[nodiscard]] Block pull_from(GroupRank source) const;
  [[nodiscard]] Block pull_to(GroupRank source) const;
  [[nodiscard]] Block push_from(GroupRank destination) const;
  [[nodiscard]] Block push_to(GroupRank destination) const;

  // Reductions: contributions have no place in the receive buffer.
  [[nodiscard]] bool has_room_for(GroupRank source, std::uint64_t bytes) const {
    return posted_.reduction || bytes <= expected_bytes(source);
  }
  // True if the whole block of a source that has announced fits.
  [[nodiscard]] bool has_room_for_all_of(GroupRank source) const { return has_room_for(source, remote(source).bytes); }
  // Bytes of a placed block. A block that was placed before a restart fitted.
  [[nodiscard]] std::uint64_t placed_bytes(GroupRank source) const {
    return pairs_[source].announced ? pull_bytes(source) : expected_bytes(source);
  }

 private:
  [[nodiscard]] Block remote_block(GroupRank peer, std::uint64_t at_most_bytes) const;

  const PostedOperation posted_;
  const Membership& membership_;
  const RemoteBuffers& buffers_;
  const PairTable& pairs_;
  PooledArray<RemoteBlock> extents_;  // by group rank, for pairs with `by_extent`
};

// ---------------------------------------------------------------- for each block, so inline

inline RemoteBlock BlockMap::remote(GroupRank peer) const {
  const PairState& pair = pairs_[peer];
  if (!pair.announced) return RemoteBlock();
  if (pair.by_extent) return extents_[index_of(peer)];
  const RemoteBuffer& buffer = buffers_[peer];
  RemoteBlock block;
  block.address = buffer.base + static_cast<std::uint64_t>(buffer.stride_bytes) * posted_.me.value();
  block.bytes = buffer.block_bytes;
  return block;
}

inline Block BlockMap::remote_block(GroupRank peer, std::uint64_t at_most_bytes) const {
  const RemoteBlock end = remote(peer);
  Block block;
  block.memory.owner = membership_.world(peer);
  block.memory.region = buffers_[peer].region;
  block.memory.address = end.address;
  block.bytes = std::min(end.bytes, at_most_bytes);
  return block;
}

inline std::uint64_t BlockMap::pull_bytes(GroupRank source) const {
  return std::min(remote(source).bytes, expected_bytes(source));
}

inline Block BlockMap::pull_from(GroupRank source) const {
  return remote_block(source, expected_bytes(source));
}

inline Block BlockMap::pull_to(GroupRank source) const {
  Block block = posted_.receive.block(source);
  block.bytes = pull_bytes(source);
  return block;
}

inline Block BlockMap::push_from(GroupRank destination) const {
  Block block = posted_.send.block(destination);
  block.bytes = std::min(remote(destination).bytes, block.bytes);
  return block;
}

inline Block BlockMap::push_to(GroupRank destination) const {
  return remote_block(destination, owed_bytes(destination));
}

inline void BlockMap::learn_extent(Pool& pool, GroupRank peer, const RemoteBlock& extent) {
  if (extents_.empty()) extents_.make(pool, membership_.size(), RemoteBlock());
  extents_[index_of(peer)] = extent;
}

}  // namespace outrigger::engine
