#include "engine/relay/node_stage.hpp"

#include <algorithm>
#include <vector>

#include "engine/relay/broadcast_shapes.hpp"

namespace outrigger::engine {
namespace {

// Segments with the same home node differ by the round, so round-robin over rounds is round-robin over service
// processes.
SpId server(const Membership& group, std::size_t node, const Segment& segment) {
  const std::vector<std::vector<SpId>>& nodes = group.services_by_node();
  const std::size_t index = segment.index == peer::kWholeBlock ? 0 : segment.index;
  const std::size_t others = std::max<std::size_t>(1, nodes.size() - 1);
  const std::vector<SpId>& services = nodes[node];
  return services[(segment.source.value() + index % others + index / others) % services.size()];
}

}  // namespace

std::uint32_t segments_between_nodes(const Operation& operation, const LocalRank& rank, GroupRank source, bool alone) {
  const Membership& group = operation.membership();
  const EngineLimits& limits = operation.context.config.limits;
  const std::vector<std::vector<SpId>>& nodes = group.services_by_node();
  if (nodes.size() < 2 || group.on_own_node(source) || !rank.blocks.has_room_for_all_of(source)) return 1;
  const std::uint64_t others = nodes.size() - 1;
  const std::uint64_t share_bytes = rank.blocks.pull_bytes(source) / others;
  std::uint64_t rounds = 1;
  for (const std::vector<SpId>& services : nodes) rounds = std::max<std::uint64_t>(rounds, services.size());
  if (alone) rounds = std::max(rounds, rounds_for(limits, share_bytes, others));
  rounds = std::min(rounds, peer::kMaxSegments / others);
  rounds = std::min(rounds, share_bytes / std::max<std::uint64_t>(1, limits.split_bytes));
  return rounds == 0 ? 1 : static_cast<std::uint32_t>(rounds * others);
}

bool serves(const Membership& group, const Segment& segment) {
  return server(group, group.node_of(group.self()), segment) == group.self();
}

std::optional<SpId> ask_between_nodes(const Membership& group, const Segment& segment, std::uint32_t hop) {
  const std::size_t own = group.node_of(group.self());
  if (hop == 0) return server(group, own, segment);
  if (segment.index != peer::kWholeBlock) {
    const std::size_t home = home_node(group, segment);
    if (hop > 1 || home == own) return std::nullopt;
    return server(group, home, segment);
  }
  const std::size_t root = group.node_of(group.service_of(segment.source));
  const std::optional<std::size_t> above = binomial_ancestor(own, root, group.services_by_node().size(), hop);
  if (!above) return std::nullopt;
  return server(group, *above, segment);
}

}  // namespace outrigger::engine
