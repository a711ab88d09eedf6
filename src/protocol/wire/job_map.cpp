#include "protocol/wire/job_map.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace outrigger {
namespace {

constexpr std::uint32_t kCardMagic = 0x4352414F;  // "OARC"

void put_u32(std::vector<std::byte>& out, std::uint32_t value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(value));
}

void put_bytes(std::vector<std::byte>& out, const void* bytes, std::size_t count) {
  const auto* first = static_cast<const std::byte*>(bytes);
  out.insert(out.end(), first, first + count);
}

// Reads fields, and remembers a read past the end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

  std::span<const std::byte> take(std::size_t count) {
    if (failed_ || count > rest_.size()) {
      failed_ = true;
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint32_t take_u32() {
    std::uint32_t value = 0;
    const auto bytes = take(sizeof(value));
    if (!failed_) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

std::optional<KeeperPlace> read_keeper(Reader& reader) {
  KeeperPlace keeper;
  const std::uint32_t port = reader.take_u32();
  const std::uint32_t addresses = reader.take_u32();
  if (reader.failed() || port > 0xFFFF || addresses > kMaxKeeperAddresses) return std::nullopt;
  keeper.port = static_cast<std::uint16_t>(port);
  for (std::uint32_t i = 0; i < addresses; ++i) {
    KeeperPlace::Address address{};
    const auto bytes = reader.take(address.size());
    if (reader.failed()) return std::nullopt;
    std::memcpy(address.data(), bytes.data(), address.size());
    keeper.addresses.push_back(address);
  }
  return keeper;
}

std::optional<NodeDescriptor> read_descriptor(Reader& reader) {
  NodeDescriptor descriptor;
  if (reader.take_u32() != kCardMagic) return std::nullopt;
  const std::uint32_t name_bytes = reader.take_u32();
  const std::uint32_t services = reader.take_u32();
  const std::uint32_t ranks = reader.take_u32();
  if (reader.failed() || name_bytes > kMaxNodeNameBytes || services == 0 || services > kMaxServices || ranks == 0 ||
      ranks > kMaxLocalRanks) {
    return std::nullopt;
  }
  const auto name = reader.take(name_bytes);
  const auto secret = reader.take(descriptor.secret.size());
  if (reader.failed()) return std::nullopt;
  descriptor.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  std::memcpy(descriptor.secret.data(), secret.data(), secret.size());
  for (std::uint32_t i = 0; i < services; ++i) {
    const std::uint32_t bytes = reader.take_u32();
    if (bytes > kMaxWireAddressBytes) return std::nullopt;
    const auto address = reader.take(bytes);
    if (reader.failed()) return std::nullopt;
    descriptor.addresses.emplace_back(address.begin(), address.end());
  }
  for (std::uint32_t i = 0; i < ranks; ++i) {
    const WorldRank rank{reader.take_u32()};
    const std::uint32_t sp = reader.take_u32();
    if (reader.failed() || sp >= services) return std::nullopt;
    descriptor.ranks.push_back(RankAssignment{rank, sp});
  }
  std::optional<KeeperPlace> keeper = read_keeper(reader);
  if (!keeper) return std::nullopt;
  descriptor.keeper = std::move(*keeper);
  return descriptor;
}

}  // namespace

void encode_descriptor(const NodeDescriptor& descriptor, std::vector<std::byte>& out) {
  const std::string name = descriptor.name.substr(0, kMaxNodeNameBytes);
  put_u32(out, kCardMagic);
  put_u32(out, static_cast<std::uint32_t>(name.size()));
  put_u32(out, static_cast<std::uint32_t>(descriptor.addresses.size()));
  put_u32(out, static_cast<std::uint32_t>(descriptor.ranks.size()));
  put_bytes(out, name.data(), name.size());
  put_bytes(out, descriptor.secret.data(), descriptor.secret.size());
  for (const auto& address : descriptor.addresses) {
    put_u32(out, static_cast<std::uint32_t>(address.size()));
    put_bytes(out, address.data(), address.size());
  }
  for (const RankAssignment& place : descriptor.ranks) {
    put_u32(out, place.rank.value());
    put_u32(out, place.sp);
  }
  const std::size_t addresses = std::min(descriptor.keeper.addresses.size(), kMaxKeeperAddresses);
  put_u32(out, descriptor.keeper.port);
  put_u32(out, static_cast<std::uint32_t>(addresses));
  for (std::size_t i = 0; i < addresses; ++i) {
    put_bytes(out, descriptor.keeper.addresses[i].data(), descriptor.keeper.addresses[i].size());
  }
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
  Reader reader(bytes);
  while (!reader.at_end()) {
    std::optional<NodeDescriptor> descriptor = read_descriptor(reader);
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
