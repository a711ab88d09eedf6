#include "protocol/options/selection.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "protocol/options/settings.hpp"

namespace outrigger {
namespace {

constexpr std::string_view kNative = "native";
constexpr std::string_view kOn = "on";
constexpr std::string_view kAuto = "auto";
constexpr std::string_view kAll = "all";
constexpr std::string_view kBlocking = "blocking";

constexpr Range at_least(std::uint64_t low) {
  return Range{low, Range::kNoEnd};
}

constexpr SelectionRule built_in(Collective collective, Algorithm algorithm, std::uint64_t least_nodes) {
  SelectionRule rule;
  rule.collective = collective;
  rule.nodes = at_least(least_nodes);
  rule.verdict = Verdict::algorithm;
  rule.algorithm = algorithm;
  return rule;
}

constexpr SelectionRule native_if_small(Collective collective) {
  SelectionRule rule;
  rule.collective = collective;
  rule.bytes = Range{0, kSmallBlockBytes};
  rule.verdict = Verdict::native;
  return rule;
}

// Small blocks take several times as long through a service process (measured: docs/inside/algorithms.md).
constexpr std::array kSmall{native_if_small(Collective::ialltoall), native_if_small(Collective::iallgather),
                            native_if_small(Collective::ibcast),    native_if_small(Collective::iallreduce),
                            native_if_small(Collective::ireduce),   native_if_small(Collective::ireduce_scatter_block),
                            native_if_small(Collective::igather),   native_if_small(Collective::iscatter),
                            native_if_small(Collective::ibarrier),  native_if_small(Collective::ireduce_scatter),
                            native_if_small(Collective::iscan),     native_if_small(Collective::iexscan)};

// With one rank per node `node_pull` was measured to be faster between nodes (docs/inside/algorithms.md). The other
// rules follow from the bytes on the network, without measurements. With several ranks a node, `flat` sends a block of
// an allgather once to every rank of another node, and `node_pull` once to the node. With several service processes a
// node, `flat` may bring a broadcast to a node several times, and `hierarchical` brings it once. With one they are the
// same.
// `rooted` sends a third of the messages of `sliced_pull`, and all bytes through one service process. Messages are dear
// where processors carry them: measured. Elsewhere, by the model, `sliced_pull` is faster from its second slice on.
constexpr Range kOneSlice{0, 16U << 10};
constexpr Range kWithMessages{0, 32U << 10};  // longer blocks have messages of their own
constexpr Range kThroughOneService{0, 96U << 10};
constexpr std::array kBuiltIn = [] {
  std::array rules{built_in(Collective::iallgather, Algorithm::node_pull, 2),
                   built_in(Collective::iallgatherv, Algorithm::node_pull, 2),
                   built_in(Collective::ibcast, Algorithm::hierarchical, 2),
                   built_in(Collective::iallreduce, Algorithm::rooted, 2),
                   built_in(Collective::iallreduce, Algorithm::rooted, 2),
                   built_in(Collective::iallreduce, Algorithm::rooted, 2)};
  rules[2].services = at_least(2);
  rules[3].wire = Wire::processor;
  rules[3].bytes = kWithMessages;
  rules[3].wire_bytes = kThroughOneService;
  rules[4].wire = Wire::memory;
  rules[4].bytes = kOneSlice;
  rules[5].ranks_per_node = Range{1, 1};  // `sliced_pull` has as many bytes on the wire
  rules[5].bytes = kOneSlice;
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
  bool needs_bytes = false;
};
constexpr std::array kConditions{
    Condition{'r', &SelectionRule::ranks},          Condition{'n', &SelectionRule::nodes},
    Condition{'p', &SelectionRule::ranks_per_node}, Condition{'s', &SelectionRule::services},
    Condition{'b', &SelectionRule::bytes, true},    Condition{'w', &SelectionRule::wire_bytes, true},
};

bool fits_bytes(const SelectionRule& rule, const GroupShape& shape, std::optional<std::uint64_t> block_bytes) {
  if (rule.bytes.everything() && rule.wire_bytes.everything()) return true;
  if (!block_bytes) return false;
  std::uint64_t wire_bytes = 0;
  if (__builtin_mul_overflow(*block_bytes, shape.far_ranks, &wire_bytes)) wire_bytes = Range::kNoEnd;
  return rule.bytes.contains(*block_bytes) && rule.wire_bytes.contains(wire_bytes);
}

bool serves(const SelectionRule& rule, Collective collective) {
  if (rule.collective) return *rule.collective == collective;
  return !rule.algorithm || has_algorithm(collective, *rule.algorithm);
}

bool fits(const SelectionRule& rule, Collective collective, const GroupShape& shape,
          std::optional<std::uint64_t> block_bytes) {
  return serves(rule, collective) && rule.wire.value_or(shape.wire) == shape.wire && rule.ranks.contains(shape.ranks) &&
         rule.nodes.contains(shape.nodes) && rule.ranks_per_node.contains(shape.ranks_per_node) &&
         rule.services.contains(shape.services) && fits_bytes(rule, shape, block_bytes);
}

std::optional<std::uint64_t> number(std::string_view text, bool sizes) {
  constexpr std::array<std::pair<char, unsigned>, 3> kUnits{{{'K', 10}, {'M', 20}, {'G', 30}}};
  unsigned shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (!sizes || !text.ends_with(unit)) continue;
    text.remove_suffix(1);
    shift = bits;
    break;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value > (Range::kNoEnd >> shift)) return std::nullopt;
  return value << shift;
}

std::optional<Range> range_of(std::string_view text, bool sizes) {
  const auto dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::optional<std::uint64_t> low = dash == 0 ? std::optional<std::uint64_t>(0) : number(first, sizes);
  if (!low) return std::nullopt;
  if (dash == std::string_view::npos) return Range{*low, *low};
  if (dash + 1 == text.size()) return dash == 0 ? std::nullopt : std::optional(at_least(*low));
  const std::optional<std::uint64_t> high = number(text.substr(dash + 1), sizes);
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

// Removes the text before the separator, and the separator, from `text` and returns it; all of it without a separator.
std::string_view cut(std::string_view& text, char separator) {
  const auto at = text.find(separator);
  const std::string_view word = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return word;
}

// Returns an empty text, or the reason why the condition is invalid.
std::string add_condition(SelectionRule& rule, std::string_view condition) {
  const auto known = std::find_if(kConditions.begin(), kConditions.end(), [&](const Condition& candidate) {
    return !condition.empty() && condition.front() == candidate.letter;
  });
  if (known == kConditions.end()) return "a condition begins with r, n, p, s, b or w";
  const std::string_view letter = condition.substr(0, 1);
  const std::optional<Range> range = range_of(condition.substr(1), known->needs_bytes);
  if (!range) {
    return joined({"after '", letter, "' write N, LOW-, LOW-HIGH or -HIGH, not '", condition.substr(1), "'"});
  }
  Range& here = rule.*known->range;
  if (!here.everything()) return joined({"'", letter, "' is given twice"});
  if (range->everything()) return joined({"'", condition, "' always holds; leave it out"});
  if (known->needs_bytes && rule.collective && !has_alike_blocks(*rule.collective)) {
    return joined({"bytes differ between the ranks of ", name_of(*rule.collective), ", so they cannot decide"});
  }
  here = *range;
  return {};
}

struct Names {
  std::string text;
  void add(std::string_view name) { text += joined({text.empty() ? "" : ", ", name}); }
};

std::string call_names() {
  Names names;
  for (const CollectiveRow& row : kCollectives) names.add(row.name);
  for (const CollectiveRow& row : kCollectives) names.add(blocking_name_of(row.collective));
  names.add(kAll);
  return names.text;
}

bool read_calls(SelectionRule& rule, std::string_view name) {
  if (name == kAll) return true;
  rule.collective = collective_named(name);
  for (const CollectiveRow& row : kCollectives) {
    if (blocking_name_of(row.collective) != name) continue;
    rule.collective = row.collective;
    rule.blocking = true;
  }
  return rule.collective.has_value();
}

// The rule's calls are already set.
std::string read_choice(SelectionRule& rule, std::string_view choice) {
  if (choice == kNative) return {};
  if (choice == kOn || choice == kAuto) {
    rule.verdict = choice == kOn ? Verdict::on : Verdict::automatic;
    return {};
  }
  rule.algorithm = algorithm_named(choice);
  rule.verdict = Verdict::algorithm;
  if (!rule.algorithm) return joined({"there is no such algorithm as '", choice, "'; there are ", selection_choices()});
  if (rule.collective && !has_algorithm(*rule.collective, *rule.algorithm)) {
    return joined({"the collective has no such algorithm; there are ", selection_choices()});
  }
  return {};
}

// There were such rules before OUTRIGGER_BLOCKING.
std::string blocking_remedy(std::string_view choice) {
  const std::string_view value = choice == kNative ? "off" : choice == kAuto ? kAuto : kOn;
  return joined({"set ", setting::kBlocking, "=", value, ", or give --blocking ", value});
}

Result<SelectionRule> decode_rule(std::string_view text) {
  SelectionRule rule;
  std::string_view conditions = text;
  std::string_view choice = text;
  const auto equals = text.find('=');
  if (equals != std::string_view::npos) {
    conditions = text.substr(0, equals);
    choice = text.substr(equals + 1);
    std::string_view rest = conditions;
    const std::string_view calls = cut(rest, ':');
    if (calls == kBlocking) return bad(text, blocking_remedy(choice));
    if (!read_calls(rule, calls)) {
      return bad(text, joined({"there is no such collective as '", calls, "'; there are ", call_names()}));
    }
    if (conditions.ends_with(':')) return bad(text, "a condition is missing after ':'");
    while (!rest.empty()) {
      const std::string why = add_condition(rule, cut(rest, ':'));
      if (!why.empty()) return bad(text, why);
    }
  }
  const std::string why = read_choice(rule, choice);
  if (!why.empty()) return bad(text, why);
  return rule;
}

std::string_view choice_of(const SelectionRule& rule) {
  switch (rule.verdict) {
    case Verdict::native: return kNative;
    case Verdict::algorithm: return name_of(*rule.algorithm);
    case Verdict::on: return kOn;
    case Verdict::automatic: return kAuto;
  }
  return kNative;
}

std::string_view calls_of(const SelectionRule& rule) {
  if (!rule.collective) return kAll;
  return rule.blocking ? blocking_name_of(*rule.collective) : name_of(*rule.collective);
}

std::string encode_rule(const SelectionRule& rule) {
  std::string conditions;
  for (const Condition& condition : kConditions) {
    const Range& range = rule.*condition.range;
    if (range.everything()) continue;
    conditions += ':';
    conditions += condition.letter;
    conditions += std::to_string(range.low);
    if (range.high == range.low) continue;
    conditions += '-';
    if (range.high != Range::kNoEnd) conditions += std::to_string(range.high);
  }
  if (!rule.collective && conditions.empty()) return std::string(choice_of(rule));
  return joined({calls_of(rule), conditions, "=", choice_of(rule)});
}

bool unconditional(const SelectionRule& rule) {
  return std::all_of(kConditions.begin(), kConditions.end(),
                     [&](const Condition& condition) { return (rule.*condition.range).everything(); });
}

// True if the earlier rule decides in every case in which the later one could.
bool hides(const SelectionRule& earlier, const SelectionRule& later) {
  if (earlier.blocking != later.blocking || !unconditional(earlier)) return false;
  if (earlier.collective) return earlier.collective == later.collective;
  if (!earlier.algorithm) return true;
  return later.collective ? has_algorithm(*later.collective, *earlier.algorithm) : earlier.algorithm == later.algorithm;
}

}  // namespace

GroupShape shape_of(std::span<const RankPlace> places, std::span<const WorldRank> members, Wire wire) {
  GroupShape shape;
  shape.wire = wire;
  shape.ranks = static_cast<std::uint32_t>(members.size());
  std::vector<RankPlace> here;
  here.reserve(members.size());
  for (const WorldRank member : members) {
    if (member.value() >= places.size()) return shape;
    here.push_back(places[member.value()]);
  }
  shape.far_ranks = static_cast<std::uint32_t>(
      std::ranges::count_if(here, [&](const RankPlace& place) { return place.node != here.front().node; }));
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

Result<SelectionTable> SelectionTable::decode(std::string_view text, std::optional<bool> blocking) {
  SelectionTable table;
  if (blocking) table.blocking_forms_ = *blocking ? Verdict::on : Verdict::native;
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

std::vector<std::string> SelectionTable::hidden() const {
  std::vector<std::string> why(rules_.size());
  for (std::size_t later = 0; later < rules_.size(); ++later) {
    const auto known = rules_.begin() + static_cast<std::ptrdiff_t>(later);
    if (std::none_of(rules_.begin(), known, [&](const SelectionRule& rule) { return hides(rule, *known); })) continue;
    why[later] = joined({"never used for ", calls_of(*known), ": an earlier rule always decides"});
  }
  return why;
}

const SelectionRule* SelectionTable::users_rule(bool blocking, Collective collective, const GroupShape& shape,
                                                std::optional<std::uint64_t> block_bytes) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const SelectionRule& rule) {
    return rule.blocking == blocking && fits(rule, collective, shape, block_bytes);
  });
  return found != rules_.end() ? &*found : nullptr;
}

Decision SelectionTable::decide(bool blocking, Collective collective, const GroupShape& shape,
                                std::optional<std::uint64_t> block_bytes) const {
  Decision decision;
  if (blocking) {
    const SelectionRule* own = users_rule(true, collective, shape, block_bytes);
    const Verdict verdict = own == nullptr ? blocking_forms_ : own->verdict;
    const bool automatic = verdict == Verdict::automatic;
    decision.by_user = !automatic && verdict != Verdict::on;
    decision.considered = automatic ? blocking_pays(collective, shape, block_bytes) : verdict != Verdict::native;
    if (own != nullptr) decision.algorithm = own->algorithm;
    if (decision.by_user || !decision.considered) return decision;
  }
  const SelectionRule* rule = users_rule(false, collective, shape, block_bytes);
  decision.by_user = rule != nullptr && rule->verdict != Verdict::automatic;
  const bool on = rule != nullptr && rule->verdict == Verdict::on;
  if (decision.by_user && !on) {
    decision.algorithm = rule->algorithm;
    return decision;
  }
  const auto fitting = [&](const SelectionRule& candidate) { return fits(candidate, collective, shape, block_bytes); };
  const auto known = std::ranges::find_if(kBuiltIn, fitting);
  decision.if_offloaded = known != kBuiltIn.end() ? *known->algorithm : default_algorithm(collective);
  if (on || std::ranges::none_of(kSmall, fitting)) decision.algorithm = decision.if_offloaded;
  return decision;
}

bool SelectionTable::wants_offload() const {
  return blocking_forms_ == Verdict::on || std::ranges::any_of(rules_, &SelectionRule::wants_offload);
}

bool SelectionTable::may_offload_blocking(std::uint32_t nodes) const {
  const auto offloads = [](const SelectionRule& rule) { return rule.blocking && rule.wants_offload(); };
  if (std::ranges::any_of(rules_, offloads)) return true;
  if (blocking_forms_ != Verdict::automatic) return blocking_forms_ == Verdict::on;
  return nodes > 1;  // on one node it never pays
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

}  // namespace outrigger
