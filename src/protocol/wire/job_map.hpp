// Ranks and service processes of all nodes of a job. Every node's keeper writes a descriptor, the node leaders exchange
// descriptors through the program's own MPI, and every service process gets all of them.
//
// Size: O(nodes + ranks), once per job. Plain values; safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/ids.hpp"
#include "protocol/wire/control.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger {

inline constexpr std::uint32_t kDescriptorMagic = 0x4352414F;  // "OARC"
inline constexpr std::size_t kMaxNodeNameBytes = 255;
inline constexpr std::size_t kMaxWireAddressBytes = 64U << 10;
inline constexpr std::size_t kMaxKeeperAddresses = 16;
inline constexpr std::uint64_t kMaxJobMapBytes = 1ULL << 30;

// A rank of the node and its service process, by its number on the node.
struct RankAssignment {
  WorldRank rank;
  std::uint32_t sp = 0;
  constexpr bool operator==(const RankAssignment&) const = default;
};

// The keeper's listener for keepers of other nodes: a TCP port at any of these addresses.
struct KeeperPlace {
  using Address = std::array<std::uint8_t, 16>;  // IPv6; IPv4 as ::ffff:a.b.c.d
  std::uint16_t port = 0;                        // 0: no listener
  std::vector<Address> addresses;
  bool operator==(const KeeperPlace&) const = default;
  static constexpr void fields(auto& io, auto& place) {
    io.value(place.port);
    io.list(place.addresses, kMaxKeeperAddresses);
  }
};

struct NodeDescriptor {
  std::string name;                               // for people
  Secret secret{};                                // random; the first node's becomes the job's
  std::vector<std::vector<std::byte>> addresses;  // address of each service process; opaque
  std::vector<RankAssignment> ranks;
  KeeperPlace keeper;
  bool operator==(const NodeDescriptor&) const = default;
  static constexpr void fields(auto& io, auto& node) {
    io.constant(kDescriptorMagic);
    io.list(node.name, kMaxNodeNameBytes);
    io.value(node.secret);
    io.list(node.addresses, kMaxServices, [&io](auto& address) { io.list(address, kMaxWireAddressBytes); });
    io.list(node.ranks, kMaxLocalRanks);
    io.value(node.keeper);
    io.require(!node.addresses.empty() && !node.ranks.empty());
    for (const RankAssignment& place : node.ranks) io.require(place.sp < node.addresses.size());
  }
};

// Appends the encoded descriptor to `out`, its name and list of addresses cut to their limits. A job map is encoded as
// its descriptors in the order of the nodes.
void encode_descriptor(NodeDescriptor descriptor, std::vector<std::byte>& out);

struct JobMap {
  std::vector<NodeDescriptor> nodes;
  std::vector<std::uint32_t> first_sp;  // first SpId of each node
  std::vector<SpId> sp_of_rank;         // by world rank
  std::uint32_t sp_count = 0;

  [[nodiscard]] const Secret& secret() const { return nodes.front().secret; }
  [[nodiscard]] std::uint32_t node_of(SpId sp) const;
  [[nodiscard]] const std::vector<std::byte>& address_of(SpId sp) const;
};

// Errors: bytes that encode_descriptor() would not have written, exceeded limits, or world ranks that are not named
// exactly once.
[[nodiscard]] Result<JobMap> decode_job_map(std::span<const std::byte> bytes, std::uint32_t world_size);

}  // namespace outrigger
