#include "client/selection.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace outrigger::client {
namespace {

constexpr std::string_view kNative = "native";

constexpr Range at_least(std::uint64_t low) {
  return Range{low, Range::kNoEnd};
}

constexpr SelectionRule built_in(Collective collective, Algorithm algorithm, std::uint64_t least_nodes) {
  SelectionRule rule;
  rule.collective = collective;
  rule.nodes = at_least(least_nodes);
  rule.algorithm = algorithm;
  return rule;
}

// Between nodes `node_ring` was measured to be faster where they have one rank each (docs/algorithms.md). The rest is
// by what crosses the network, not by measurements. With several ranks a node `flat` sends a block of an allgather once
// to every rank of another node, `node_ring` once to the node. With several service processes a node the tree of `flat`
// may bring a broadcast to a node once for each of them, `hierarchical` once. Where a node has one, they do not differ.
constexpr std::array kBuiltIn = [] {
  std::array rules{built_in(Collective::iallgather, Algorithm::node_ring, 2),
                   built_in(Collective::iallgatherv, Algorithm::node_ring, 2),
                   built_in(Collective::ibcast, Algorithm::hierarchical, 2)};
  rules[2].services = at_least(2);
  return rules;
}();

constexpr SelectionRule blocking_case(Collective collective, std::uint64_t least_nodes,
                                      std::uint64_t least_ranks_per_node, std::uint64_t least_bytes) {
  SelectionRule rule;
  rule.collective = collective;
  rule.nodes = at_least(least_nodes);
  rule.ranks_per_node = at_least(least_ranks_per_node);
  rule.bytes = at_least(least_bytes);
  return rule;
}

constexpr std::array kBlockingPays{
    blocking_case(Collective::iallgather, 2, 2, 256U << 10), blocking_case(Collective::iallgather, 3, 1, 256U << 10),
    blocking_case(Collective::iallgather, 3, 2, 64U << 10),  blocking_case(Collective::ibcast, 3, 1, 256U << 10),
    blocking_case(Collective::ibcast, 3, 2, 64U << 10),
};

struct Condition {
  char letter;
  Range SelectionRule::*range;
};
constexpr std::array kConditions{
    Condition{'r', &SelectionRule::ranks},          Condition{'n', &SelectionRule::nodes},
    Condition{'p', &SelectionRule::ranks_per_node}, Condition{'s', &SelectionRule::services},
    Condition{'b', &SelectionRule::bytes},
};

bool serves(const SelectionRule& rule, Collective collective) {
  if (rule.collective) return *rule.collective == collective;
  return !rule.algorithm || has_algorithm(collective, *rule.algorithm);
}

bool fits(const SelectionRule& rule, Collective collective, const GroupShape& shape,
          std::optional<std::uint64_t> block_bytes) {
  return serves(rule, collective) && rule.ranks.contains(shape.ranks) && rule.nodes.contains(shape.nodes) &&
         rule.ranks_per_node.contains(shape.ranks_per_node) && rule.services.contains(shape.services) &&
         (rule.bytes.everything() || (block_bytes && rule.bytes.contains(*block_bytes)));
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Range> range_of(std::string_view text) {
  const auto dash = text.find('-');
  const std::optional<std::uint64_t> low = number(text.substr(0, dash));
  if (!low) return std::nullopt;
  if (dash == std::string_view::npos) return Range{*low, *low};
  if (dash + 1 == text.size()) return at_least(*low);
  const std::optional<std::uint64_t> high = number(text.substr(dash + 1));
  if (!high || *high < *low) return std::nullopt;
  return Range{*low, *high};
}

std::string joined(std::initializer_list<std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += word;
  return text;
}

Error bad(std::string_view rule, std::string_view why) {
  return Error{joined({"'", rule, "': ", why})};
}

// Cuts off what stands before the separator, which goes, too; all of it where there is none.
std::string_view cut(std::string_view& text, char separator) {
  const auto at = text.find(separator);
  const std::string_view word = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return word;
}

// Empty: the condition holds from now on. Else why it is none.
std::string add_condition(SelectionRule& rule, std::string_view condition) {
  const auto known = std::find_if(kConditions.begin(), kConditions.end(), [&](const Condition& candidate) {
    return !condition.empty() && condition.front() == candidate.letter;
  });
  if (known == kConditions.end()) return "a condition begins with r, n, p, s or b";
  const std::string_view letter = condition.substr(0, 1);
  const std::optional<Range> range = range_of(condition.substr(1));
  if (!range) return joined({"after '", letter, "' comes N, LOW- or LOW-HIGH"});
  Range& here = rule.*known->range;
  if (!here.everything()) return joined({"'", letter, "' is there twice"});
  if (range->everything()) return joined({"'", condition, "' is no condition"});
  if (known->letter == 'b' && !has_alike_blocks(*rule.collective)) {
    return joined({"bytes differ between the ranks of ", name_of(*rule.collective), ", so they cannot decide"});
  }
  here = *range;
  return {};
}

Result<SelectionRule> decode_rule(std::string_view text) {
  SelectionRule rule;
  const auto equals = text.find('=');
  const std::string_view choice = equals == std::string_view::npos ? text : text.substr(equals + 1);
  if (choice != kNative) {
    rule.algorithm = algorithm_named(choice);
    if (!rule.algorithm) return bad(text, "there is no such algorithm");
  }
  if (equals == std::string_view::npos) return rule;
  const std::string_view conditions = text.substr(0, equals);
  std::string_view rest = conditions;
  rule.collective = collective_named(cut(rest, ':'));
  if (!rule.collective) return bad(text, "there is no such collective");
  if (rule.algorithm && !has_algorithm(*rule.collective, *rule.algorithm)) {
    return bad(text, "the collective has no such algorithm");
  }
  if (conditions.ends_with(':')) return bad(text, "a condition is missing after ':'");
  while (!rest.empty()) {
    const std::string why = add_condition(rule, cut(rest, ':'));
    if (!why.empty()) return bad(text, why);
  }
  return rule;
}

std::string encode_rule(const SelectionRule& rule) {
  const std::string_view choice = rule.algorithm ? name_of(*rule.algorithm) : kNative;
  if (!rule.collective) return std::string(choice);
  std::string text(name_of(*rule.collective));
  for (const Condition& condition : kConditions) {
    const Range& range = rule.*condition.range;
    if (range.everything()) continue;
    text += ':';
    text += condition.letter;
    text += std::to_string(range.low);
    if (range.high == range.low) continue;
    text += '-';
    if (range.high != Range::kNoEnd) text += std::to_string(range.high);
  }
  return joined({text, "=", choice});
}

}  // namespace

GroupShape shape_of(std::span<const RankPlace> places, std::span<const WorldRank> members) {
  GroupShape shape;
  shape.ranks = static_cast<std::uint32_t>(members.size());
  std::vector<RankPlace> here;
  here.reserve(members.size());
  for (const WorldRank member : members) {
    if (member.value() >= places.size()) return shape;
    here.push_back(places[member.value()]);
  }
  std::sort(here.begin(), here.end());
  shape.nodes = 0;
  for (std::size_t first = 0; first < here.size();) {
    std::uint32_t services = 1;
    std::size_t next = first + 1;
    for (; next < here.size() && here[next].node == here[first].node; ++next) {
      if (here[next] != here[next - 1]) ++services;
    }
    ++shape.nodes;
    shape.ranks_per_node = std::max(shape.ranks_per_node, static_cast<std::uint32_t>(next - first));
    shape.services = std::max(shape.services, services);
    first = next;
  }
  shape.nodes = std::max(1U, shape.nodes);
  return shape;
}

Result<SelectionTable> SelectionTable::decode(std::string_view text) {
  SelectionTable table;
  if (text.empty()) return table;
  if (text.ends_with(',')) return Error{"a rule is missing after the last ','"};
  while (!text.empty()) {
    if (table.rules_.size() == kMaxRules) return Error{joined({"more than ", std::to_string(kMaxRules), " rules"})};
    const Result<SelectionRule> rule = decode_rule(cut(text, ','));
    if (!rule) return Error{rule.error()};
    table.rules_.push_back(rule.value());
  }
  return table;
}

std::string SelectionTable::encode() const {
  std::string text;
  for (const SelectionRule& rule : rules_) {
    if (!text.empty()) text += ',';
    text += encode_rule(rule);
  }
  return text;
}

std::optional<Algorithm> SelectionTable::choose(Collective collective, const GroupShape& shape,
                                                std::optional<std::uint64_t> block_bytes) const {
  const auto decides = [&](const SelectionRule& rule) { return fits(rule, collective, shape, block_bytes); };
  const auto users = std::find_if(rules_.begin(), rules_.end(), decides);
  if (users != rules_.end()) return users->algorithm;
  const auto known = std::find_if(kBuiltIn.begin(), kBuiltIn.end(), decides);
  return known != kBuiltIn.end() ? known->algorithm : default_algorithm(collective);
}

bool blocking_pays(Collective collective, const GroupShape& shape, std::optional<std::uint64_t> block_bytes) {
  return std::any_of(kBlockingPays.begin(), kBlockingPays.end(),
                     [&](const SelectionRule& rule) { return fits(rule, collective, shape, block_bytes); });
}

std::string selection_choices() {
  std::string text;
  for (const CollectiveRow& row : kCollectives) {
    text += joined({text.empty() ? "" : "; ", row.name, "=", name_of(row.algorithms[0])});
    for (std::size_t i = 1; i < row.algorithms.size(); ++i) {
      if (row.algorithms[i] != row.algorithms[i - 1]) text += joined({" or ", name_of(row.algorithms[i])});
    }
  }
  return text;
}

}  // namespace outrigger::client
