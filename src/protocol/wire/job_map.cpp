#include "protocol/wire/job_map.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace outrigger {

void encode_descriptor(NodeDescriptor descriptor, std::vector<std::byte>& out) {
  const auto shorten = [](auto& list, std::size_t most) { list.resize(std::min(list.size(), most)); };
  shorten(descriptor.name, kMaxNodeNameBytes);
  shorten(descriptor.keeper.addresses, kMaxKeeperAddresses);
  append(out, descriptor);
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
    std::optional<NodeDescriptor> descriptor = take_first<NodeDescriptor>(bytes);
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
