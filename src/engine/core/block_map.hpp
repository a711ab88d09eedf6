// Where both ends of a local rank's blocks are: its own, as it has posted them, and the others', as they have announced
// them. Either end of a move is trimmed to what fits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/core/group.hpp"
#include "engine/core/pair_table.hpp"
#include "engine/core/pool.hpp"
#include "engine/posted_operation.hpp"

namespace outrigger::engine {

// What a rank of the group has announced to all local ranks alike, in one operation. One each, shared by the local
// ranks, so that the regular collectives need no addresses per pair.
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

// The other end of a pair, as its rank has announced it.
struct RemoteBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// 16 bytes a pair where peers announce extents, else nothing.
class BlockMap {
 public:
  // All but `posted` are the operation's and outlive this.
  BlockMap(PostedOperation&& posted, const Membership& membership, const RemoteBuffers& buffers, const PairTable& pairs)
      : posted_(std::move(posted)), membership_(membership), buffers_(buffers), pairs_(pairs) {}

  [[nodiscard]] const PostedOperation& posted() const { return posted_; }

  // What the rank has room for, and what it has to send.
  [[nodiscard]] std::uint64_t expected_bytes(GroupRank source) const { return posted_.receive.bytes(source); }
  [[nodiscard]] std::uint64_t owed_bytes(GroupRank destination) const { return posted_.send.bytes(destination); }
  // 0 bytes while the pair has not been ready.
  [[nodiscard]] RemoteBlock remote(GroupRank peer) const;
  void learn_extent(Pool& pool, GroupRank peer, const RemoteBlock& extent);

  // Of a reduction: how many ranks, from the first on, contribute to what this one gets (or, of an exscan, this one).
  [[nodiscard]] std::size_t contributors() const {
    return is_prefix(posted_.collective) ? index_of(posted_.me) + 1 : membership_.size();
  }
  // All that the source contributes. The receive side is slices, by owner, as slices.hpp cuts them.
  [[nodiscard]] Block contribution(GroupRank source) const { return remote_block(source, posted_.send.block_bytes); }

  // What a pull from the source moves.
  [[nodiscard]] std::uint64_t pull_bytes(GroupRank source) const;
  // Both ends of the pair's move; never empty for a peer that was ready.
  [[nodiscard]] Block pull_from(GroupRank source) const;
  [[nodiscard]] Block pull_to(GroupRank source) const;
  [[nodiscard]] Block push_from(GroupRank destination) const;
  [[nodiscard]] Block push_to(GroupRank destination) const;

  // Contributions to a reduction have no place of their own.
  [[nodiscard]] bool has_room_for(GroupRank source, std::uint64_t bytes) const {
    return posted_.reduction || bytes <= expected_bytes(source);
  }
  // There is room for everything that the source, which has announced, sends.
  [[nodiscard]] bool has_room_for_all_of(GroupRank source) const { return has_room_for(source, remote(source).bytes); }
  // Of a block that is placed: how much there is of it. What was placed before a restart fitted.
  [[nodiscard]] std::uint64_t placed_bytes(GroupRank source) const {
    return pairs_[source].announced ? pull_bytes(source) : expected_bytes(source);
  }

 private:
  [[nodiscard]] Block remote_block(GroupRank peer, std::uint64_t at_most_bytes) const;

  const PostedOperation posted_;
  const Membership& membership_;
  const RemoteBuffers& buffers_;
  const PairTable& pairs_;
  PooledArray<RemoteBlock> extents_;  // by group rank, where pairs say `by_extent`
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
