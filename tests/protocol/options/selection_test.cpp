// The selection table: its text, its decisions, and shapes of groups.
#include "protocol/options/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace outrigger {
namespace {

// With the first rank on the node that has most.
GroupShape shape(std::uint32_t ranks, std::uint32_t nodes, std::uint32_t ranks_per_node, std::uint32_t services) {
  return GroupShape{ranks, nodes, ranks_per_node, services, ranks - std::min(ranks, ranks_per_node)};
}

SelectionTable table(std::string_view text, std::optional<bool> blocking = std::nullopt) {
  const Result<SelectionTable> decoded = SelectionTable::decode(text, blocking);
  EXPECT_TRUE(decoded.ok()) << text << ": " << (decoded ? "" : decoded.error());
  return decoded ? decoded.value() : SelectionTable();
}

using Bytes = std::optional<std::uint64_t>;

std::optional<Algorithm> chosen(const SelectionTable& rules, Collective collective, const GroupShape& shape,
                                Bytes bytes) {
  return rules.decide(false, collective, shape, bytes).algorithm;
}

std::optional<Algorithm> chosen_blocking(const SelectionTable& rules, Collective collective, const GroupShape& shape,
                                         Bytes bytes) {
  return rules.decide(true, collective, shape, bytes).algorithm;
}

TEST(Selection, TheBuiltInTableBringsBlocksToANodeOnce) {
  const SelectionTable built_in;
  const GroupShape one_node = shape(8, 1, 8, 2);
  const GroupShape one_rank_a_node = shape(4, 4, 1, 1);
  const GroupShape two_ranks = shape(2, 2, 1, 1);
  const GroupShape several = shape(8, 2, 4, 2);
  for (const Collective all_to_all : {Collective::ialltoall, Collective::ialltoallv, Collective::ialltoallw}) {
    for (const GroupShape& any : {one_node, one_rank_a_node, several}) {
      EXPECT_EQ(chosen(built_in, all_to_all, any, std::nullopt), Algorithm::ring_pull);
    }
  }
  for (const Collective gather : {Collective::iallgather, Collective::iallgatherv}) {
    EXPECT_EQ(chosen(built_in, gather, one_node, std::nullopt), Algorithm::flat);
    EXPECT_EQ(chosen(built_in, gather, two_ranks, std::nullopt), Algorithm::node_pull);
    EXPECT_EQ(chosen(built_in, gather, one_rank_a_node, std::nullopt), Algorithm::node_pull);
    EXPECT_EQ(chosen(built_in, gather, several, std::nullopt), Algorithm::node_pull);
  }
  constexpr std::uint64_t kLarge = 1U << 20;
  EXPECT_EQ(chosen(built_in, Collective::ibcast, one_node, kLarge), Algorithm::flat);
  EXPECT_EQ(chosen(built_in, Collective::ibcast, shape(8, 2, 4, 1), kLarge), Algorithm::flat);
  EXPECT_EQ(chosen(built_in, Collective::ibcast, several, kLarge), Algorithm::hierarchical);
}

// The longest vector of the size class that is rooted; all sizes up to there are. 0: none.
std::uint64_t longest_rooted(const GroupShape& group) {
  const SelectionTable on = table("all=on");
  const auto is_rooted = [&](std::uint64_t bytes) {
    return chosen(on, Collective::iallreduce, group, bytes) == Algorithm::rooted;
  };
  std::uint64_t longest = 0;
  while (longest < (1U << 20) && is_rooted(longest + 4)) longest += 4;
  EXPECT_FALSE(is_rooted(longest + 4));
  EXPECT_FALSE(is_rooted(1U << 20));
  return longest;
}

TEST(Selection, AllreducesBetweenNodesAreRootedUpToOneSliceWhereCardsMoveMemory) {
  for (const GroupShape& group : {shape(2, 2, 1, 1), shape(8, 4, 2, 1), shape(128, 16, 8, 2)}) {
    EXPECT_EQ(longest_rooted(group), 16U << 10) << group.ranks;
  }
  EXPECT_EQ(longest_rooted(shape(8, 1, 8, 1)), 0U);
  EXPECT_EQ(chosen(table("all=on"), Collective::ireduce, shape(8, 2, 4, 1), 8), Algorithm::sliced_pull);
}

// All contributions and results of other nodes go through one service process.
TEST(Selection, AllreducesAreRootedByBytesTimesRanksWhereProcessorsCarryThem) {
  const auto over_tcp = [](GroupShape group) {
    group.wire = Wire::processor;
    return longest_rooted(group);
  };
  EXPECT_EQ(over_tcp(shape(2, 2, 1, 1)), 32U << 10);
  EXPECT_EQ(over_tcp(shape(4, 4, 1, 1)), 32U << 10);
  EXPECT_EQ(over_tcp(shape(5, 5, 1, 1)), 24U << 10);
  EXPECT_EQ(over_tcp(shape(16, 16, 1, 1)), 16U << 10) << "`sliced_pull` has as many bytes";
  EXPECT_EQ(over_tcp(shape(4, 2, 2, 1)), 32U << 10);
  EXPECT_EQ(over_tcp(shape(8, 4, 2, 1)), 16U << 10);
  EXPECT_EQ(over_tcp(shape(32, 4, 8, 1)), 4U << 10);
  const GroupShape root_is_alone{.ranks = 7, .nodes = 2, .ranks_per_node = 6, .services = 1, .far_ranks = 6};
  EXPECT_EQ(over_tcp(root_is_alone), 16U << 10);
  EXPECT_EQ(over_tcp(shape(8, 1, 8, 1)), 0U);
}

TEST(Selection, ARuleMayNameTheBytesOnTheWire) {
  const SelectionTable rules = table("ibcast:w64K-=native,ibcast:w1-=hierarchical,all=on");
  const auto choose = [&](const GroupShape& group, Bytes bytes) {
    return chosen(rules, Collective::ibcast, group, bytes);
  };
  EXPECT_EQ(choose(shape(3, 3, 1, 1), 32U << 10), std::nullopt);
  EXPECT_EQ(choose(shape(3, 3, 1, 1), (32U << 10) - 1), Algorithm::hierarchical);
  EXPECT_EQ(choose(shape(3, 3, 1, 1), std::numeric_limits<std::uint64_t>::max()), std::nullopt);
  EXPECT_EQ(choose(shape(3, 1, 3, 1), 64U << 10), Algorithm::flat);
}

TEST(Selection, SmallBlocksAreNativeUnlessARuleSaysOtherwise) {
  const GroupShape any = shape(4, 1, 4, 1);
  for (const Collective alike : {Collective::ialltoall, Collective::iallgather, Collective::ibcast}) {
    EXPECT_EQ(chosen(SelectionTable(), alike, any, kSmallBlockBytes), std::nullopt);
    EXPECT_NE(chosen(SelectionTable(), alike, any, kSmallBlockBytes + 1), std::nullopt);
    EXPECT_EQ(chosen_blocking(table("", true), alike, any, 8), std::nullopt);
    EXPECT_EQ(chosen(table("all=auto"), alike, any, 8), std::nullopt);
    EXPECT_EQ(chosen(table("all=on"), alike, any, 8), default_algorithm(alike));
    EXPECT_EQ(chosen(table("all:b4-=on"), alike, any, 3), std::nullopt);
  }
  EXPECT_EQ(chosen(table("ibcast=hierarchical"), Collective::ibcast, any, 8), Algorithm::hierarchical);
  EXPECT_NE(chosen(SelectionTable(), Collective::ialltoallv, any, std::nullopt), std::nullopt);
}

TEST(Selection, WhatARuleNamesIsDecidedForGood) {
  const GroupShape any = shape(8, 4, 2, 1);  // for which blocking forms are considered
  constexpr std::uint64_t kLarge = 1U << 20;
  const auto decided = [&](std::string_view text, bool blocking) {
    return table(text).decide(blocking, Collective::ibcast, any, kLarge).by_user;
  };
  EXPECT_FALSE(table("", true).decide(true, Collective::ibcast, any, kLarge).by_user);
  EXPECT_TRUE(table("", false).decide(true, Collective::ibcast, any, kLarge).by_user);
  for (const std::string_view open : {"", "ibcast=auto", "ialltoall=on", "all:b-64K=on"}) {
    EXPECT_FALSE(decided(open, false)) << open;
    EXPECT_FALSE(decided(open, true)) << open;
  }
  for (const std::string_view fixed : {"ibcast=flat", "flat", "all=on", "ibcast=native", "all:b64K-=on,ibcast=auto"}) {
    EXPECT_TRUE(decided(fixed, false)) << fixed;
    EXPECT_TRUE(decided(fixed, true)) << fixed;
  }
  EXPECT_TRUE(decided("bcast=flat", true));
  EXPECT_FALSE(decided("bcast=flat", false));
}

TEST(Selection, BlockingFormsPayBetweenNodesForLargeBlocksThatAreAlike) {
  constexpr std::uint64_t kQuarter = 256U << 10;
  const auto pays = [](Collective collective, std::uint32_t nodes, std::uint32_t ranks_per_node,
                       std::optional<std::uint64_t> bytes) {
    return blocking_pays(collective, shape(nodes * ranks_per_node, nodes, ranks_per_node, 1), bytes);
  };
  EXPECT_TRUE(pays(Collective::iallgather, 2, 2, kQuarter));
  EXPECT_FALSE(pays(Collective::iallgather, 2, 2, kQuarter - 1));
  EXPECT_FALSE(pays(Collective::iallgather, 2, 1, 4 * kQuarter));
  EXPECT_FALSE(pays(Collective::ibcast, 2, 2, kQuarter));
  for (const Collective collective : {Collective::iallgather, Collective::ibcast}) {
    EXPECT_TRUE(pays(collective, 3, 1, kQuarter));
    EXPECT_FALSE(pays(collective, 3, 1, kQuarter - 1));
    EXPECT_TRUE(pays(collective, 3, 2, kQuarter / 4));
    EXPECT_FALSE(pays(collective, 3, 2, kQuarter / 4 - 1));
  }
  for (const CollectiveRow& row : kCollectives) {
    EXPECT_FALSE(pays(row.collective, 1, 64, 1U << 30)) << row.name;
    EXPECT_FALSE(pays(row.collective, 64, 64, std::nullopt)) << row.name;
  }
}

TEST(Selection, TheUsersFirstRuleThatFitsDecides) {
  const SelectionTable rules = table("iallgather:n2-:b1024-65536=hierarchical,iallgather:r1-4=native,iallgather=flat");
  const auto choose = [&](std::uint32_t ranks, std::uint32_t nodes, std::uint64_t bytes) {
    return chosen(rules, Collective::iallgather, shape(ranks, nodes, ranks, 1), bytes);
  };
  EXPECT_EQ(choose(8, 2, 1024), Algorithm::hierarchical);
  EXPECT_EQ(choose(8, 2, 65536), Algorithm::hierarchical);
  EXPECT_EQ(choose(8, 2, 1023), Algorithm::flat);
  EXPECT_EQ(choose(8, 2, 65537), Algorithm::flat);
  EXPECT_EQ(choose(8, 1, 1024), Algorithm::flat);
  EXPECT_EQ(choose(4, 1, 1024), std::nullopt);
  EXPECT_EQ(choose(4, 2, 1024), Algorithm::hierarchical);
  // The others are unchanged.
  EXPECT_EQ(chosen(rules, Collective::iallgatherv, shape(4, 2, 2, 1), std::nullopt), Algorithm::node_pull);
}

TEST(Selection, AnAlgorithmAloneIsForAllThatHaveIt) {
  const SelectionTable rules = table("hierarchical");
  const GroupShape any = shape(4, 1, 4, 1);
  EXPECT_EQ(chosen(rules, Collective::iallgatherv, any, std::nullopt), Algorithm::hierarchical);
  EXPECT_EQ(chosen(rules, Collective::ibcast, any, 8), Algorithm::hierarchical);
  EXPECT_EQ(chosen(rules, Collective::ialltoall, any, 1U << 20), Algorithm::ring_pull);
  for (const CollectiveRow& row : kCollectives) {
    EXPECT_EQ(chosen(table("native"), row.collective, any, std::nullopt), std::nullopt);
  }
}

TEST(Selection, RulesWantOffloadOrNot) {
  for (const char* wants : {"all=on", "ibcast=native,flat", "ialltoall:b4096-=ring_pull"}) {
    EXPECT_TRUE(SelectionTable::decode(wants).value().wants_offload()) << wants;
  }
  for (const char* not_so : {"", "all=native"}) {
    EXPECT_FALSE(SelectionTable::decode(not_so).value().wants_offload()) << not_so;
  }
  EXPECT_TRUE(table("", true).wants_offload());
  EXPECT_FALSE(table("", false).wants_offload());
}

TEST(Selection, BadTextIsRefusedWithItsReason) {
  struct Case {
    const char* text;
    const char* reason;
  };
  for (const Case& bad : {Case{"ring", "no such algorithm"},
                          Case{"ialltoallx=flat", "no such collective"},
                          Case{"ialltoall=flat", "the collective has no such algorithm"},
                          Case{"ialltoall=", "no such algorithm"},
                          Case{"=ring_pull", "no such collective"},
                          Case{"flat,", "missing after the last ','"},
                          Case{"flat,,flat", "no such algorithm"},
                          Case{" flat", "no such algorithm"},
                          Case{"ibcast:=flat", "missing after ':'"},
                          Case{"ibcast::r1=flat", "begins with"},
                          Case{"ibcast:x1=flat", "begins with"},
                          Case{"ibcast:r=flat", "N, LOW-, LOW-HIGH or -HIGH"},
                          Case{"ibcast:r-=flat", "N, LOW-, LOW-HIGH or -HIGH"},
                          Case{"ibcast:r4-2=flat", "N, LOW-, LOW-HIGH or -HIGH"},
                          Case{"ibcast:r+1=flat", "N, LOW-, "},
                          Case{"ibcast:r64K=flat", "N, LOW-, "},
                          Case{"ibcast:b64Q=flat", "N, LOW-, "},
                          Case{"ibcast:b99999999999G=flat", "N, LOW-, "},
                          Case{"ibcast:r99999999999999999999=flat", "N, LOW-"},
                          Case{"ibcast:r1:r2=flat", "given twice"},
                          Case{"ibcast:r0-=flat", "always holds"},
                          Case{"ialltoallv:b8=native", "bytes differ between the ranks"},
                          Case{"iallgatherv:b8-=flat", "bytes differ between the ranks"},
                          Case{"iallgatherv:w8-=flat", "bytes differ between the ranks"},
                          Case{"alltoallv:b8-=native", "bytes differ between the ranks"},
                          Case{"blocking=on", "set OUTRIGGER_BLOCKING=on, or give --blocking on"},
                          Case{"blocking:n2-=native", "set OUTRIGGER_BLOCKING=off, or give --blocking off"},
                          Case{"alltoall=flat", "the collective has no such algorithm"}}) {
    const Result<SelectionTable> decoded = SelectionTable::decode(bad.text);
    ASSERT_FALSE(decoded.ok()) << bad.text;
    EXPECT_NE(decoded.error().find(bad.reason), std::string::npos) << bad.text << ": " << decoded.error();
  }
  std::string many = "flat";
  for (std::size_t i = 1; i < SelectionTable::kMaxRules; ++i) many += ",flat";
  EXPECT_TRUE(SelectionTable::decode(many).ok());
  EXPECT_FALSE(SelectionTable::decode(many + ",flat").ok());
}

// Each text, and the library's form of it.
TEST(Selection, SizesAndNamesForAllAreWrittenOut) {
  for (const auto& [text, written] : std::vector<std::pair<std::string, std::string>>{
           {"ibcast:b64K-=native", "ibcast:b65536-=native"},
           {"ibcast:b-4K:r2=flat", "ibcast:r2:b0-4096=flat"},
           {"all:b-1M=native", "all:b0-1048576=native"},
           {"all:w-1M:b8-=native", "all:b8-:w0-1048576=native"},
           {"all=flat", "flat"},
           {"allgather=node_pull,bcast=auto", "allgather=node_pull,bcast=auto"}}) {
    EXPECT_EQ(table(text).encode(), written);
  }
}

TEST(Selection, BytesInARuleForAllDecideWhereTheyAreAlike) {
  const SelectionTable rules = table("all:b-4095=native");
  const GroupShape any = shape(4, 1, 4, 1);
  for (const CollectiveRow& row : kCollectives) {
    const Collective collective = row.collective;
    EXPECT_EQ(chosen(rules, collective, any, 4096), chosen(SelectionTable(), collective, any, 4096));
    EXPECT_EQ(chosen(rules, collective, any, std::nullopt), chosen(SelectionTable(), collective, any, std::nullopt));
    EXPECT_EQ(chosen(rules, collective, any, 4095), std::nullopt);
    EXPECT_EQ(chosen_blocking(rules, collective, any, 4095), std::nullopt);
  }
}

TEST(Selection, BlockingFormsHaveRulesOfTheirOwn) {
  const GroupShape one_node = shape(4, 1, 4, 1);
  const GroupShape nodes = shape(8, 4, 2, 1);
  constexpr std::uint64_t kLarge = 1U << 20;
  const auto offloads = [&](std::string_view text, const GroupShape& group, std::optional<bool> others = std::nullopt) {
    return table(text, others).decide(true, Collective::iallgather, group, kLarge).considered;
  };
  for (const std::string_view by_itself : {"", "ibcast=flat", "bcast=on", "iallgather=native"}) {
    EXPECT_FALSE(offloads(by_itself, one_node)) << by_itself;
    EXPECT_TRUE(offloads(by_itself, nodes)) << by_itself;
  }
  EXPECT_FALSE(offloads("", nodes, false));
  EXPECT_FALSE(offloads("allgather=native", nodes, true));
  EXPECT_FALSE(offloads("allgather:b1M-=native", nodes));
  EXPECT_TRUE(offloads("", one_node, true));
  EXPECT_TRUE(offloads("allgather=flat", one_node, false)) << "a rule that names it comes first";
  EXPECT_TRUE(offloads("bcast=native", one_node, true));
  EXPECT_FALSE(offloads("allgather=auto", one_node, true)) << "where it pays";
  // Its own rule's algorithm, else its nonblocking form's.
  const SelectionTable rules = table("allgather:n2-=hierarchical,iallgather=node_pull,bcast=flat", true);
  EXPECT_EQ(chosen_blocking(rules, Collective::iallgather, nodes, kLarge), Algorithm::hierarchical);
  EXPECT_EQ(chosen_blocking(rules, Collective::iallgather, one_node, kLarge), Algorithm::node_pull);
  EXPECT_EQ(chosen(rules, Collective::iallgather, nodes, kLarge), Algorithm::node_pull);
}

TEST(Selection, WhereNoBlockingFormCanBeOffloadedIsKnownBefore) {
  struct Case {
    const char* rules;
    std::optional<bool> others;
    bool one_node;
    bool nodes;
  };
  for (const Case& each : {Case{"", std::nullopt, false, true}, Case{"", false, false, false},
                           Case{"", true, true, true}, Case{"bcast=native", std::nullopt, false, true},
                           Case{"bcast:b1-=on", false, true, true}, Case{"ibcast=native", std::nullopt, false, true}}) {
    const SelectionTable rules = table(each.rules, each.others);
    EXPECT_EQ(rules.may_offload_blocking(1), each.one_node) << each.rules;
    EXPECT_EQ(rules.may_offload_blocking(2), each.nodes) << each.rules;
  }
}

TEST(Selection, ARuleThatNeverDecidesIsFound) {
  const auto hidden = [](std::string_view text) { return table(text).hidden().back(); };
  EXPECT_EQ(hidden("flat,ibcast=native"), "never used for ibcast: an earlier rule always decides");
  EXPECT_EQ(hidden("native,all:b1=flat"), "never used for all: an earlier rule always decides");
  for (const std::string_view used :
       {"flat", "flat,ialltoall=native", "bcast=on,ibcast=flat", "ibcast:b1-=flat,ibcast=native"}) {
    EXPECT_EQ(hidden(used), "") << used;
  }
}

class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  [[nodiscard]] std::string rules() {
    std::string text;
    for (std::uint64_t i = 1 + below(6); i != 0; --i) text += (text.empty() ? "" : ",") + rule();
    return text;
  }

  // A few bytes changed, removed or inserted.
  [[nodiscard]] std::string damaged(std::string text) {
    static constexpr std::string_view kLetters = "rnpsbwKM0123456789-:=,flatnative_ \0\xff";
    for (std::uint64_t i = 1 + below(3); i != 0; --i) {
      const std::size_t at = below(text.size() + 1);
      const char letter = kLetters[below(kLetters.size())];
      if (below(3) == 0) text.insert(at, 1, letter);
      if (below(3) == 0 && at < text.size()) text[at] = letter;
      if (below(3) == 0 && at < text.size()) text.erase(at, 1 + below(3));
    }
    return text;
  }

 private:
  [[nodiscard]] std::string rule() {
    const CollectiveRow& row = kCollectives[below(kCollectives.size())];
    const std::string choice(below(4) == 0 ? "native" : name_of(row.algorithms[below(row.algorithms.size())]));
    if (below(6) == 0) return choice;
    std::string text(row.name);
    for (const char letter : {'r', 'n', 'p', 's', 'b', 'w'}) {
      const bool bytes = letter == 'b' || letter == 'w';
      if (below(2) == 0 || (bytes && !has_alike_blocks(row.collective))) continue;
      const std::uint64_t low = 1 + below(bytes ? 100 : 6);
      text += std::string(":") + letter + std::to_string(low);
      if (below(3) != 0) text += below(2) == 0 ? "-" : "-" + std::to_string(low + 1 + below(5));
    }
    return text + "=" + choice;
  }

  std::mt19937_64 random_;
};

// Decoded rules encode to the same text, and every accepted text means the same after encoding and decoding.
TEST(Selection, RandomRulesSurviveDecodingAndDamageIsRefusedOrMeansSomething) {
  std::size_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    RandomText random(seed);
    const std::string text = random.rules();
    const Result<SelectionTable> decoded = SelectionTable::decode(text);
    ASSERT_TRUE(decoded.ok()) << text << ": " << decoded.error();
    ASSERT_EQ(decoded.value().encode(), text);
    const std::string damaged = random.damaged(text);
    const Result<SelectionTable> read = SelectionTable::decode(damaged);
    if (!read) {
      ++refused;
      ASSERT_FALSE(read.error().empty());
      continue;
    }
    ASSERT_EQ(table(read.value().encode()).encode(), read.value().encode()) << damaged;
  }
  EXPECT_GT(refused, 1000U);
}

// A rule that matches nothing changes nothing, and one that matches everything hides later rules.
TEST(Selection, RulesDecideInTheirOrder) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    RandomText random(seed);
    const std::string text = random.rules();
    const SelectionTable rules = table(text);
    const SelectionTable behind_others = table("ibcast:r4000000=flat,iallgather:n4000000-=native," + text);
    const SelectionTable hidden = table("ibcast=flat,ialltoallw=native," + text);
    for (const CollectiveRow& row : kCollectives) {
      const auto part = [&] { return static_cast<std::uint32_t>(1 + random.below(8)); };
      const GroupShape group = shape(part(), part(), part(), part());
      std::optional<std::uint64_t> bytes;
      if (has_alike_blocks(row.collective)) bytes = random.below(110);
      const std::optional<Algorithm> choice = chosen(rules, row.collective, group, bytes);
      EXPECT_TRUE(!choice || has_algorithm(row.collective, *choice));
      EXPECT_EQ(chosen(behind_others, row.collective, group, bytes), choice) << text;
    }
    EXPECT_EQ(chosen(hidden, Collective::ibcast, shape(2, 2, 1, 1), 5), Algorithm::flat);
    EXPECT_EQ(chosen(hidden, Collective::ialltoallw, shape(2, 2, 1, 1), std::nullopt), std::nullopt);
  }
}

TEST(Selection, ShapesOfGroups) {
  // Ranks 0-3 on node 0 (service processes 0 and 1), 4 and 5 on node 7 (service process 2).
  const std::vector<RankPlace> places{{0, 0}, {0, 1}, {0, 0}, {0, 1}, {7, 2}, {7, 2}};
  const auto of = [&](std::vector<std::uint32_t> ranks) {
    std::vector<WorldRank> members;
    for (const std::uint32_t rank : ranks) members.emplace_back(rank);
    return shape_of(places, members, Wire::memory);
  };
  EXPECT_EQ(of({0, 1, 2, 3, 4, 5}), shape(6, 2, 4, 2));
  EXPECT_EQ(of({5, 4, 3, 2, 1, 0}).far_ranks, 4U);
  EXPECT_EQ(of({0, 2}), shape(2, 1, 2, 1));
  EXPECT_EQ(of({4, 0}), shape(2, 2, 1, 1));
  EXPECT_EQ(of({0, 1, 4}).far_ranks, 1U);
  EXPECT_EQ(of({4, 0, 1}).far_ranks, 2U);
  EXPECT_EQ(of({3}), shape(1, 1, 1, 1));
  EXPECT_EQ(of({}), shape(0, 1, 1, 1));
  EXPECT_EQ(of({0, 6}).nodes, 1U);  // one without a place
}

}  // namespace
}  // namespace outrigger
