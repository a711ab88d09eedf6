// A range of one rank's memory, in that rank's virtual addresses.
//
// Plain values. A range gives no rights: code that moves bytes checks it against the owner's registered regions, and
// takes the owner from the connection, never from the message alone.
#pragma once

#include <cstdint>

#include "protocol/ids.hpp"

namespace outrigger {

// State of a receive block, in the memory of its rank. A restarted service process finds there how blocks have ended.
enum class BlockMark : std::uint8_t {
  none = 0,
  delivered = 1,
  failed = 2,  // it was not delivered, and its source may have been released
};

struct MemoryRef {
  WorldRank owner;
  RegionId region = kPrivateRegion;
  std::uint64_t address = 0;  // in the owner's address space
  [[nodiscard]] constexpr MemoryRef at(std::uint64_t offset) const { return {owner, region, address + offset}; }
  constexpr bool operator==(const MemoryRef&) const = default;
};

// The bytes that one rank sends another within an operation.
struct Block {
  MemoryRef memory;
  std::uint64_t bytes = 0;
  constexpr bool operator==(const Block&) const = default;
};

// One peer's block within a v-form buffer: `offset_bytes` from the buffer's base (may be negative).
struct PairExtent {
  std::int64_t offset_bytes = 0;
  std::uint64_t bytes = 0;
  constexpr bool operator==(const PairExtent&) const = default;
};
static_assert(sizeof(PairExtent) == 16);

// The same for a neighbor, by its rank in the group.
struct NeighborExtent {
  PairExtent block;
  std::uint32_t rank = 0;
  std::uint32_t reserved = 0;
  constexpr bool operator==(const NeighborExtent&) const = default;
};
static_assert(sizeof(NeighborExtent) == 24);

// Route of the bytes. Counted per operation for the report.
enum class Reach : std::uint8_t {
  mapped = 0,  // one memcpy by the service process between shared mappings
  cma = 1,     // one cross-memory copy; the other side is mapped
  relay = 2,   // two cross-memory copies through the service process's staging
  wire = 3,    // between nodes, over the network
  copier = 4,  // one copy by a helper thread of one of the two ranks
  xpmem = 5,   // one memcpy by the service process; private memory is attached by XPMEM
  rdma = 6,    // within a node, through the memory of its DPU's service processes
  alias = 7,   // within a node by the network card alone, from rank to rank
};
inline constexpr std::uint32_t kReachCount = 8;

}  // namespace outrigger
