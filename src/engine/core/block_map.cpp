#include "engine/core/block_map.hpp"

#include <algorithm>

namespace outrigger::engine {

RemoteBlock BlockMap::remote(GroupRank peer) const {
  const PairState& pair = pairs_[peer];
  if (!pair.announced) return RemoteBlock();
  if (pair.by_extent) return extents_[index_of(peer)];
  const RemoteBuffer& buffer = buffers_[peer];
  RemoteBlock block;
  block.address = buffer.base + static_cast<std::uint64_t>(buffer.stride_bytes) * posted_.me.value();
  block.bytes = buffer.block_bytes;
  return block;
}

void BlockMap::learn_extent(Pool& pool, GroupRank peer, const RemoteBlock& extent) {
  if (extents_.empty()) extents_.make(pool, membership_.size(), RemoteBlock());
  extents_[index_of(peer)] = extent;
}

Block BlockMap::remote_block(GroupRank peer, std::uint64_t at_most_bytes) const {
  const RemoteBlock end = remote(peer);
  Block block;
  block.memory.owner = membership_.world(peer);
  block.memory.region = buffers_[peer].region;
  block.memory.address = end.address;
  block.bytes = std::min(end.bytes, at_most_bytes);
  return block;
}

std::uint64_t BlockMap::pull_bytes(GroupRank source) const {
  return std::min(remote(source).bytes, expected_bytes(source));
}

Block BlockMap::pull_from(GroupRank source) const {
  return remote_block(source, expected_bytes(source));
}

Block BlockMap::pull_to(GroupRank source) const {
  Block block = posted_.receive.block(source);
  block.bytes = pull_bytes(source);
  return block;
}

Block BlockMap::push_from(GroupRank destination) const {
  Block block = posted_.send.block(destination);
  block.bytes = std::min(remote(destination).bytes, block.bytes);
  return block;
}

Block BlockMap::push_to(GroupRank destination) const {
  return remote_block(destination, owed_bytes(destination));
}

}  // namespace outrigger::engine
