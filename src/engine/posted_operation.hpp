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

// Where a rank's blocks for its peers are. Plain data, owned by the operation.
using OwnedBlocks = outrigger::BlockLayout<MemoryRef, std::vector<PairExtent>>;
struct BlockLayout : OwnedBlocks {
  std::optional<GroupRank> only;  // the block is for (or from) this peer alone; there are no extents
  GroupRank first;                // the block is for peers from this one on alone; there are no extents
  // Of a collective of neighbors: who they are, in order and each once, also those without bytes. Others have none.
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

// A collective that a local rank has posted, decoded and bounds-checked by the service.
struct PostedOperation {
  WorldRank rank;
  SlotIndex slot;
  OperationId id;
  std::shared_ptr<const std::vector<WorldRank>> members;  // the group, indexed by group rank
  GroupRank me;
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;
  std::uint32_t root = 0;
  std::uint64_t digest = 0;
  BlockLayout send;
  BlockLayout receive;
  // Of a reduction, and of nothing else. What is sent is the whole vector then, for everybody (stride 0); what is
  // received as much of the result as the rank gets, elsewhere: the rank contributes from a copy where it reduces in
  // place.
  std::optional<Reduction> reduction;
  std::uint64_t part_offset_bytes = 0;  // of a reduce_scatter: where in the vector what is received begins
  bool own_block_done = false;          // the rank copies its own block itself
  bool kept = false;                    // its memory stays as it is until complete(), whatever the rank is told before
  std::uint32_t native_calls = 0;       // since the rank's operation before (protocol/native_calls.hpp)
  std::vector<std::uint8_t> delivered;  // marks found at a replay, one per group rank; empty: none
};

}  // namespace outrigger::engine
