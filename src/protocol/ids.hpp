// Ids, one type each, so that a world rank is never passed as a group rank.
//
// All are plain values: trivially copyable, comparable, hashable, no ownership, safe from any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace outrigger {

template <class Tag, class Rep>
class StrongId {
 public:
  using Representation = Rep;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  [[nodiscard]] constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

using WorldRank = StrongId<struct WorldRankTag, std::uint32_t>;  // rank in MPI_COMM_WORLD
using GroupRank = StrongId<struct GroupRankTag, std::uint32_t>;  // rank in a group (communicator)
using SpId = StrongId<struct SpIdTag, std::uint32_t>;            // service process, unique in the job
using SlotIndex = StrongId<struct SlotIndexTag, std::uint32_t>;  // slot in a rank's segment
using RegionId = StrongId<struct RegionIdTag, std::uint32_t>;    // memory range, unique per rank
using Epoch = StrongId<struct EpochTag, std::uint32_t>;          // incarnation of a service process, from 1

// Private memory: not shared with service processes, reachable only by cross-memory attach.
inline constexpr RegionId kPrivateRegion{0};
// The arena inside the rank's own control segment.
inline constexpr RegionId kArenaRegion{1};
// First id of regions that a client adds. Ids are never reused.
inline constexpr RegionId kFirstAddedRegion{2};

// Ranges that are registered for RDMA: their index in the segment's key table is part of the id. Ids of one index
// increase.
inline constexpr std::uint32_t kKeyedRegionBit = 1U << 31;
inline constexpr std::uint32_t kKeyIndexBits = 9;
[[nodiscard]] constexpr RegionId keyed_region(std::uint32_t index, std::uint32_t generation) {
  return RegionId{kKeyedRegionBit | (generation << kKeyIndexBits & ~kKeyedRegionBit) | index};
}
[[nodiscard]] constexpr bool is_keyed(RegionId region) {
  return (region.value() & kKeyedRegionBit) != 0;
}
[[nodiscard]] constexpr std::uint32_t key_index(RegionId region) {
  return region.value() & ((1U << kKeyIndexBits) - 1);
}

// A communicator as the service processes know it. Never reused within a job.
struct GroupId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  constexpr auto operator<=>(const GroupId&) const = default;
};

// One collective on one group; `sequence` counts the group's offloaded collectives from 0.
struct OperationId {
  GroupId group;
  std::uint64_t sequence = 0;
  constexpr auto operator<=>(const OperationId&) const = default;
};

// The block of one rank for another in one collective. Never reused within a job.
struct BlockId {
  OperationId operation;
  GroupRank source;
  GroupRank destination;
  constexpr auto operator<=>(const BlockId&) const = default;
};

}  // namespace outrigger

template <class Tag, class Rep>
struct std::hash<outrigger::StrongId<Tag, Rep>> {
  std::size_t operator()(const outrigger::StrongId<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};

template <>
struct std::hash<outrigger::GroupId> {
  std::size_t operator()(const outrigger::GroupId& id) const noexcept {
    return static_cast<std::size_t>(id.high ^ (id.low * 0x9E3779B97F4A7C15ULL));
  }
};

template <>
struct std::hash<outrigger::OperationId> {
  std::size_t operator()(const outrigger::OperationId& id) const noexcept {
    return std::hash<outrigger::GroupId>{}(id.group) ^ static_cast<std::size_t>(id.sequence * 0xC2B2AE3D27D4EB4FULL);
  }
};

template <>
struct std::hash<outrigger::BlockId> {
  std::size_t operator()(const outrigger::BlockId& id) const noexcept {
    const std::uint64_t pair = std::uint64_t{id.source.value()} << 32U | id.destination.value();
    return std::hash<outrigger::OperationId>{}(id.operation) ^ static_cast<std::size_t>(pair * 0xD6E8FEB86659FD93ULL);
  }
};
