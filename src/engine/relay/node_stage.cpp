#include "engine/relay/node_stage.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace outrigger::engine {
namespace {

// With more of them the messages about parts cost more than is gained by passing them on sooner.
constexpr std::uint64_t kPartsOfANode = 8;
constexpr std::uint64_t kPartsOfAll = 64;

// The service process of a node that gets the block or part for it. Parts that have the same home node differ by the
// number of the other nodes, so a turn of these is a turn of the service processes, too.
SpId server(const Operation& operation, std::size_t node, GroupRank source, std::uint32_t piece) {
  const std::vector<std::vector<SpId>>& nodes = operation.membership().services_by_node();
  const std::size_t part = piece == peer::kWholeBlock ? 0 : piece;
  const std::size_t others = std::max<std::size_t>(1, nodes.size() - 1);
  const std::vector<SpId>& services = nodes[node];
  return services[(source.value() + part % others + part / others) % services.size()];
}

}  // namespace

std::size_t home_of_part(const Operation& operation, GroupRank source, std::uint32_t part) {
  const Membership& membership = operation.membership();
  const std::size_t nodes = membership.services_by_node().size();
  const std::size_t first = membership.node_of(membership.service_of(source));
  return (first + 1 + part % (nodes - 1)) % nodes;
}

std::uint64_t cuts(const Operation& operation, std::uint64_t bytes, std::uint64_t nodes) {
  const std::uint64_t parts = bytes / std::max<std::uint64_t>(1, operation.limits().part_bytes);
  return std::max<std::uint64_t>(1, std::min({parts, kPartsOfANode, kPartsOfAll / nodes}));
}

std::uint32_t parts_between_nodes(const Operation& operation, const LocalRank& rank, GroupRank source, bool alone) {
  const std::vector<std::vector<SpId>>& nodes = operation.membership().services_by_node();
  if (nodes.size() < 2 || operation.on_own_node(source) || !rank.gets_all_of(source)) return 1;
  const std::uint64_t others = nodes.size() - 1;
  const std::uint64_t bytes = rank.pull_bytes(source);
  std::uint64_t turns = 1;
  for (const std::vector<SpId>& services : nodes) turns = std::max<std::uint64_t>(turns, services.size());
  if (alone) turns = std::max(turns, cuts(operation, bytes / others, others));
  turns = std::min(turns, peer::kMaxPieces / others);
  turns = std::min(turns, bytes / others / std::max<std::uint64_t>(1, operation.limits().split_bytes));
  return turns == 0 ? 1 : static_cast<std::uint32_t>(turns * others);
}

bool reads_at_source(const Operation& operation, GroupRank source, std::uint32_t piece) {
  const Membership& membership = operation.membership();
  return server(operation, membership.node_of(membership.self()), source, piece) == membership.self();
}

std::optional<SpId> ask_between_nodes(const Operation& operation, GroupRank source, std::uint32_t piece,
                                      std::uint32_t hop) {
  const Membership& membership = operation.membership();
  const std::size_t nodes = membership.services_by_node().size();
  const std::size_t own = membership.node_of(membership.self());
  const std::size_t first = membership.node_of(membership.service_of(source));
  if (hop == 0) return server(operation, own, source, piece);
  if (piece != peer::kWholeBlock) {
    const std::size_t home = home_of_part(operation, source, piece);
    if (hop > 1 || home == own) return std::nullopt;
    return server(operation, home, source, piece);
  }
  std::size_t number = (own + nodes - first) % nodes;
  for (std::uint32_t up = 0; up < hop && number != 0; ++up) number &= number - 1;
  if (number == 0) return std::nullopt;
  return server(operation, (number + first) % nodes, source, piece);
}

}  // namespace outrigger::engine
