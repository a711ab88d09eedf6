// A collective as a local rank has posted it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/block_layout.hpp"
#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::engine {

// Places of a rank's blocks for its peers. Plain data, owned by the operation.
using OwnedBlocks = outrigger::BlockLayout<MemoryRef, std::vector<PairExtent>>;
struct BlockLayout : OwnedBlocks {
  std::optional<GroupRank> only;  // the block is only for (or from) this peer; no extents
  GroupRank first;                // the block is only for peers from this one on; no extents
  // Neighbor collectives: the neighbors in ascending order, without duplicates, including those without bytes. Empty
  // for others.
  std::vector<GroupRank> neighbors;

  [[nodiscard]] std::uint64_t bytes(GroupRank peer) const {
    return peer < first || (only && *only != peer) ? 0 : OwnedBlocks::bytes(peer.value());
  }
  [[nodiscard]] std::uint64_t address(GroupRank peer) const { return base.address + offset_bytes(peer.value()); }
  [[nodiscard]] Block block(GroupRank peer) const {
    Block result{base, bytes(peer)};
    result.memory.address = address(peer);
    return result;
  }
};

// A posted collective, decoded and bounds-checked by the service.
struct PostedOperation {
  WorldRank rank;
  SlotIndex slot;
  OperationId id;
  std::shared_ptr<const std::vector<WorldRank>> members;  // indexed by group rank
  GroupRank me;
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;
  std::uint32_t root = 0;
  std::uint64_t digest = 0;
  BlockLayout send;
  BlockLayout receive;
  // Reductions only. The send side is the whole vector for all peers (stride 0). The receive side is the rank's part of
  // the result, in another buffer: an in-place reduction sends a copy.
  std::optional<Reduction> reduction;
  std::uint64_t part_offset_bytes = 0;  // reduce_scatter: offset of the received part in the vector
  bool own_block_done = false;          // the rank copies its own block itself
  bool kept = false;                    // buffers stay valid until complete(), even after an earlier report
  std::uint32_t native_calls = 0;       // since the rank's previous operation (protocol/native_calls.hpp)
  std::vector<std::uint8_t> delivered;  // delivered marks found at a replay, by group rank; empty if none
};

}  // namespace outrigger::engine
