#include "report/node_counts.hpp"

#include <algorithm>
#include <csignal>
#include <map>

namespace outrigger::report {
namespace {

bool by_launcher(const Ending& ended) {
  return ended.how == "signal" && (ended.signal == SIGTERM || ended.signal == SIGKILL);
}

// The lowest is the most likely cause.
int order_of(const Ending& ended) {
  if (ended.how == "ended") return ended.rank ? 1 : 0;  // ended by the library in a rank, or by its keeper
  if (ended.how == "aborted") return 1;
  if (ended.how == "lost") return ended.rank ? 3 : 4;  // no rank: the kernel did not tell how a rank ended
  return by_launcher(ended) ? 3 : 2;
}

bool tells_more(const NodeCounts& one, const NodeCounts& other) {
  const int mine = order_of(one.ended);
  const int theirs = order_of(other.ended);
  return mine != theirs ? mine < theirs : one.ended_at_ns < other.ended_at_ns;
}

void add_routes(std::vector<WireUse>& uses, const std::vector<WireRoute>& routes) {
  for (const WireRoute& route : routes) {
    const auto known = std::ranges::find(uses, route, &WireUse::route);
    if (known == uses.end()) {
      uses.push_back({route, 1});
    } else {
      ++known->nodes;
    }
  }
}

}  // namespace

std::vector<std::byte> encode_node_counts(NodeCounts counts) {
  counts.ended.text.resize(std::min(counts.ended.text.size(), kTextBytes));
  return encoded(counts);
}

std::optional<NodeCounts> decode_node_counts(std::span<const std::byte> bytes) {
  return decoded<NodeCounts>(bytes);
}

Summary summary_of(std::span<const NodeCounts> nodes) {
  Summary summary;
  std::map<std::uint32_t, const NodeCounts::Rank*> by_rank;
  for (const NodeCounts& node : nodes) {
    for (const NodeCounts::Rank& rank : node.ranks) {
      const std::optional<CheckedLedger> checked = check_ledger(rank.ledger);
      if (checked) by_rank.emplace(checked->header.world_rank, &rank);
    }
    add_routes(summary.wire, node.routes);
  }
  for (const auto& [number, rank] : by_rank) (void)add_ledger(summary, rank->ledger, rank->left_ns);
  if (!nodes.empty()) summary.ended = std::ranges::min_element(nodes, tells_more)->ended;
  return summary;
}

}  // namespace outrigger::report
