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
  std::optional<GroupRank> only;  // the block is for (or from) this peer only; no extents
  GroupRank first;                // the block is for peers from this one on; no extents

  // Neighbor collectives only: the neighbors in ascending order, without duplicates, also those without bytes.
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
  std::uint64_t part_offset_bytes = 0;  // reduce_scatter: offset of the received part
  MemoryRef own_contribution;           // rooted, at the root: its send side is the result
  bool own_block_done = false;          // the rank copies its own block
  bool kept = false;                    // buffers are valid until complete()
  std::uint32_t native_calls = 0;       // see protocol/native_calls.hpp
  std::vector<std::uint8_t> marks;      // BlockMark by group rank, found at a replay; empty: no replay

  [[nodiscard]] BlockMark mark_of(GroupRank source) const {
    return marks.empty() ? BlockMark::none : BlockMark{marks[source.value()]};
  }
};

}  // namespace outrigger::engine
