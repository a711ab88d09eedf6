// The decoder of job maps against arbitrary bytes and against nearly valid job maps. The first byte is the number of
// ranks. Accepted maps must encode to the same bytes, and every lookup must stay inside the map.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "protocol/wire/job_map.hpp"

namespace {

using namespace outrigger;

void check(std::span<const std::byte> bytes, std::uint32_t world_size) {
  const auto decoded = decode_job_map(bytes, world_size);
  if (!decoded) {
    if (decoded.error().empty()) std::abort();
    return;
  }
  const JobMap& job_map = decoded.value();
  if (job_map.nodes.empty() || job_map.first_sp.size() != job_map.nodes.size() ||
      job_map.sp_of_rank.size() != world_size) {
    std::abort();
  }
  std::vector<std::byte> again;
  for (const NodeDescriptor& descriptor : job_map.nodes) encode_descriptor(descriptor, again);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  for (std::uint32_t sp = 0; sp < job_map.sp_count; ++sp) {
    if (job_map.node_of(SpId{sp}) >= job_map.nodes.size()) std::abort();
    if (job_map.address_of(SpId{sp}).size() > kMaxWireAddressBytes) std::abort();
  }
  for (const SpId sp : job_map.sp_of_rank) {
    if (sp.value() >= job_map.sp_count) std::abort();
  }
}

std::vector<std::byte> good_job_map() {
  std::vector<std::byte> bytes;
  for (std::uint32_t node = 0; node < 2; ++node) {
    NodeDescriptor descriptor;
    descriptor.name = "node";
    descriptor.addresses.assign(node + 1, std::vector<std::byte>(3));
    descriptor.ranks = {RankAssignment{WorldRank{node}, 0}, RankAssignment{WorldRank{node + 2}, node}};
    descriptor.keeper = KeeperPlace{7, {{1}, {2}}};
    encode_descriptor(descriptor, bytes);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint32_t world_size = data[0] % 17;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  check(bytes, world_size);
  std::vector<std::byte> nearly = good_job_map();
  for (std::size_t i = 0; i < std::min(bytes.size(), nearly.size()); ++i) nearly[i] ^= bytes[i];
  check(nearly, 4);
  if (bytes.size() > nearly.size())
    nearly.insert(nearly.end(), bytes.begin() + static_cast<std::ptrdiff_t>(nearly.size()), bytes.end());
  check(nearly, world_size);
  return 0;
}
