#include "engine/relay/broadcast_shapes.hpp"

#include <algorithm>

namespace outrigger::engine {
namespace {

// More rounds cost more in messages about segments than earlier forwarding gains.
constexpr std::uint64_t kMostRounds = 8;
constexpr std::uint64_t kMostSegments = 64;

std::size_t node_of_source(const Membership& group, GroupRank source) {
  return group.node_of(group.service_of(source));
}

}  // namespace

std::uint32_t segments_a_round(const Membership& group) {
  return static_cast<std::uint32_t>(group.services_by_node().size() - 1);
}

std::size_t home_node(const Membership& group, const Segment& segment) {
  const std::size_t nodes = group.services_by_node().size();
  return (node_of_source(group, segment.source) + 1 + segment.index % (nodes - 1)) % nodes;
}

std::uint32_t own_segment(const Membership& group, GroupRank source, std::uint32_t round) {
  const std::size_t nodes = group.services_by_node().size();
  const std::size_t place = (group.node_of(group.self()) + nodes - node_of_source(group, source) - 1) % nodes;
  return round * segments_a_round(group) + static_cast<std::uint32_t>(place);
}

std::uint64_t rounds_for(const EngineLimits& limits, std::uint64_t share_bytes, std::uint64_t shares) {
  const std::uint64_t fitting = share_bytes / std::max<std::uint64_t>(1, limits.segment_bytes);
  return std::max<std::uint64_t>(1, std::min({fitting, kMostRounds, kMostSegments / shares}));
}

}  // namespace outrigger::engine
