#include "protocol/wire/job_map.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "protocol/wire/plain_bytes.hpp"

namespace outrigger {
namespace {

constexpr std::uint32_t kCardMagic = 0x4352414F;  // "OARC"

// Layouts on the wire. A descriptor has its name and secret next, then each address behind its length, then the ranks,
// then the keeper's place with its addresses.
struct PlainDescriptor {
  std::uint32_t magic = kCardMagic;
  std::uint32_t name_bytes = 0;
  std::uint32_t services = 0;
  std::uint32_t ranks = 0;
};
struct PlainRank {
  std::uint32_t rank = 0;
  std::uint32_t sp = 0;
};
struct PlainKeeper {
  std::uint32_t port = 0;
  std::uint32_t addresses = 0;
};

std::uint32_t length_of(std::size_t count) {
  return static_cast<std::uint32_t>(count);
}

std::optional<KeeperPlace> take_keeper(std::span<const std::byte>& rest) {
  PlainKeeper plain;
  if (!take(rest, plain) || plain.port > 0xFFFF || plain.addresses > kMaxKeeperAddresses) return std::nullopt;
  KeeperPlace keeper{static_cast<std::uint16_t>(plain.port), std::vector<KeeperPlace::Address>(plain.addresses)};
  for (KeeperPlace::Address& address : keeper.addresses) {
    if (!take(rest, address)) return std::nullopt;
  }
  return keeper;
}

bool take_address(std::span<const std::byte>& rest, std::vector<std::byte>& address) {
  std::uint32_t length = 0;
  std::span<const std::byte> bytes;
  if (!take(rest, length) || length > kMaxWireAddressBytes || !take_bytes(rest, length, bytes)) return false;
  address.assign(bytes.begin(), bytes.end());
  return true;
}

std::optional<NodeDescriptor> take_descriptor(std::span<const std::byte>& rest) {
  PlainDescriptor plain;
  if (!take(rest, plain) || plain.magic != kCardMagic || plain.name_bytes > kMaxNodeNameBytes || plain.services == 0 ||
      plain.services > kMaxServices || plain.ranks == 0 || plain.ranks > kMaxLocalRanks) {
    return std::nullopt;
  }
  NodeDescriptor descriptor;
  std::span<const std::byte> name;
  if (!take_bytes(rest, plain.name_bytes, name) || !take(rest, descriptor.secret)) return std::nullopt;
  descriptor.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  descriptor.addresses.resize(plain.services);
  for (std::vector<std::byte>& address : descriptor.addresses) {
    if (!take_address(rest, address)) return std::nullopt;
  }
  for (std::uint32_t i = 0; i < plain.ranks; ++i) {
    PlainRank place;
    if (!take(rest, place) || place.sp >= plain.services) return std::nullopt;
    descriptor.ranks.push_back(RankAssignment{WorldRank{place.rank}, place.sp});
  }
  std::optional<KeeperPlace> keeper = take_keeper(rest);
  if (!keeper) return std::nullopt;
  descriptor.keeper = std::move(*keeper);
  return descriptor;
}

}  // namespace

void encode_descriptor(const NodeDescriptor& descriptor, std::vector<std::byte>& out) {
  const std::string name = descriptor.name.substr(0, kMaxNodeNameBytes);
  append(out, PlainDescriptor{kCardMagic, length_of(name.size()), length_of(descriptor.addresses.size()),
                              length_of(descriptor.ranks.size())});
  append_bytes(out, std::as_bytes(std::span(name)));
  append(out, descriptor.secret);
  for (const auto& address : descriptor.addresses) {
    append(out, length_of(address.size()));
    append_bytes(out, address);
  }
  for (const RankAssignment& place : descriptor.ranks) append(out, PlainRank{place.rank.value(), place.sp});
  const std::size_t addresses = std::min(descriptor.keeper.addresses.size(), kMaxKeeperAddresses);
  append(out, PlainKeeper{descriptor.keeper.port, length_of(addresses)});
  for (std::size_t i = 0; i < addresses; ++i) append(out, descriptor.keeper.addresses[i]);
}

std::uint32_t JobMap::node_of(SpId sp) const {
  const auto after = std::upper_bound(first_sp.begin(), first_sp.end(), sp.value());
  return static_cast<std::uint32_t>(after - first_sp.begin()) - 1;
}

const std::vector<std::byte>& JobMap::address_of(SpId sp) const {
  const std::uint32_t node = node_of(sp);
  return nodes[node].addresses[sp.value() - first_sp[node]];
}

Result<JobMap> decode_job_map(std::span<const std::byte> bytes, std::uint32_t world_size) {
  JobMap job_map;
  std::vector<bool> named(world_size, false);
  job_map.sp_of_rank.resize(world_size);
  std::uint32_t ranks = 0;
  while (!bytes.empty()) {
    std::optional<NodeDescriptor> descriptor = take_descriptor(bytes);
    if (!descriptor) return Error{"the job map is malformed"};
    for (const RankAssignment& place : descriptor->ranks) {
      if (place.rank.value() >= world_size || named[place.rank.value()]) {
        return Error{"the job map has an invalid or repeated rank " + std::to_string(place.rank.value())};
      }
      named[place.rank.value()] = true;
      job_map.sp_of_rank[place.rank.value()] = SpId{job_map.sp_count + place.sp};
      ++ranks;
    }
    job_map.first_sp.push_back(job_map.sp_count);
    job_map.sp_count += static_cast<std::uint32_t>(descriptor->addresses.size());
    job_map.nodes.push_back(std::move(*descriptor));
  }
  if (job_map.nodes.empty() || ranks != world_size) return Error{"the job map does not contain every rank"};
  return job_map;
}

}  // namespace outrigger
