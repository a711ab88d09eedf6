#include "report/node_counts.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <string>

#include "protocol/wire/plain_bytes.hpp"

namespace outrigger::report {
namespace {

constexpr std::uint64_t kNodeCountsMagic = 0x31434E524F;  // "ORNC1"
constexpr std::array<const char*, 5> kHows{"ended", "aborted", "signal", "exited", "lost"};

// Before the routes and the ranks.
struct PlainCounts {
  std::uint64_t magic = kNodeCountsMagic;
  std::int64_t ended_at_ns = 0;
  std::uint32_t how = 0;
  std::uint32_t has_code = 0;
  std::int32_t code = 0;
  std::uint32_t has_signal = 0;
  std::int32_t signal = 0;
  std::uint32_t has_rank = 0;
  std::uint32_t rank = 0;
  std::uint32_t routes = 0;
  std::uint32_t ranks = 0;
  std::uint32_t reserved = 0;
  std::array<char, kTextBytes> text{};
};

// Before its ledger.
struct PlainRank {
  std::int64_t left_ns = 0;
  std::uint64_t bytes = 0;
};

template <class T>
std::optional<T> if_known(std::uint32_t known, T value) {
  return known != 0 ? std::optional<T>(value) : std::nullopt;
}

Ending ending_of(const PlainCounts& plain) {
  Ending ended;
  ended.how = kHows[plain.how];
  ended.code = if_known(plain.has_code, plain.code);
  ended.signal = if_known(plain.has_signal, plain.signal);
  ended.rank = if_known(plain.has_rank, plain.rank);
  ended.text = text_in(plain.text);
  return ended;
}

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

std::vector<std::byte> encode_node_counts(const NodeCounts& counts) {
  PlainCounts plain;
  plain.ended_at_ns = counts.ended_at_ns;
  const auto how = std::ranges::find(kHows, counts.ended.how);
  plain.how = static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(how - kHows.begin(), kHows.size() - 1));
  plain.has_code = counts.ended.code ? 1 : 0;
  plain.code = counts.ended.code.value_or(0);
  plain.has_signal = counts.ended.signal ? 1 : 0;
  plain.signal = counts.ended.signal.value_or(0);
  plain.has_rank = counts.ended.rank ? 1 : 0;
  plain.rank = counts.ended.rank.value_or(0);
  plain.routes = static_cast<std::uint32_t>(counts.routes.size());
  plain.ranks = static_cast<std::uint32_t>(counts.ranks.size());
  set_text(plain.text, counts.ended.text);
  std::vector<std::byte> bytes;
  append(bytes, plain);
  for (const WireRoute& route : counts.routes) append(bytes, route);
  for (const NodeCounts::Rank& rank : counts.ranks) {
    append(bytes, PlainRank{rank.left_ns, rank.ledger.size()});
    append_bytes(bytes, rank.ledger);
  }
  return bytes;
}

std::optional<NodeCounts> decode_node_counts(std::span<const std::byte> bytes) {
  PlainCounts plain;
  if (!take(bytes, plain) || plain.magic != kNodeCountsMagic || plain.how >= kHows.size()) return std::nullopt;
  if (plain.routes > bytes.size() / sizeof(WireRoute)) return std::nullopt;
  NodeCounts counts;
  counts.ended = ending_of(plain);
  counts.ended_at_ns = plain.ended_at_ns;
  counts.routes.resize(plain.routes);
  for (WireRoute& route : counts.routes) {
    if (!take(bytes, route)) return std::nullopt;
  }
  for (std::uint32_t i = 0; i < plain.ranks; ++i) {
    PlainRank rank;
    std::span<const std::byte> ledger;
    if (!take(bytes, rank) || !take_bytes(bytes, rank.bytes, ledger)) return std::nullopt;
    counts.ranks.push_back({{ledger.begin(), ledger.end()}, rank.left_ns});
  }
  return bytes.empty() ? std::optional(std::move(counts)) : std::nullopt;
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
