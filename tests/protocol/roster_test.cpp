#include "protocol/roster.hpp"

#include <gtest/gtest.h>

#include <random>

namespace outrigger {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

NodeCard first_card() {
  NodeCard card;
  card.name = "alpha";
  card.secret.fill(7);
  card.addresses = {bytes_of({1, 2, 3}), bytes_of({4})};
  card.ranks = {RankAssignment{WorldRank{0}, 0}, RankAssignment{WorldRank{3}, 1}, RankAssignment{WorldRank{1}, 1}};
  return card;
}

NodeCard second_card() {
  NodeCard card;
  card.name = "beta";
  card.secret.fill(9);
  card.addresses = {{}};
  card.ranks = {RankAssignment{WorldRank{2}, 0}};
  return card;
}

std::vector<std::byte> encoded(const std::vector<NodeCard>& cards) {
  std::vector<std::byte> bytes;
  for (const NodeCard& card : cards) encode_card(card, bytes);
  return bytes;
}

TEST(Roster, CardsComeBackAsTheyWere) {
  const auto roster = decode_roster(encoded({first_card(), second_card()}), 4);
  ASSERT_TRUE(roster) << roster.error();
  EXPECT_EQ(roster.value().nodes, (std::vector<NodeCard>{first_card(), second_card()}));
}

TEST(Roster, ServiceProcessesCountThroughTheNodes) {
  const auto decoded = decode_roster(encoded({first_card(), second_card()}), 4);
  ASSERT_TRUE(decoded) << decoded.error();
  const Roster& roster = decoded.value();
  EXPECT_EQ(roster.sp_count, 3U);
  EXPECT_EQ(roster.first_sp, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(roster.sp_of_rank, (std::vector<SpId>{SpId{0}, SpId{1}, SpId{2}, SpId{1}}));
  EXPECT_EQ(roster.node_of(SpId{0}), 0U);
  EXPECT_EQ(roster.node_of(SpId{1}), 0U);
  EXPECT_EQ(roster.node_of(SpId{2}), 1U);
  EXPECT_EQ(roster.address_of(SpId{1}), bytes_of({4}));
  EXPECT_TRUE(roster.address_of(SpId{2}).empty());
  EXPECT_EQ(roster.secret()[0], 7);  // the first node's
}

TEST(Roster, NoLengthBetweenCardsIsOne) {
  const auto whole = encoded({first_card(), second_card()});
  const std::size_t first = encoded({first_card()}).size();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this length, so that a sanitizer sees every byte read too many.
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const auto roster = decode_roster(cut, 4);
    ASSERT_FALSE(roster) << length;
    const bool boundary = length == 0 || length == first;
    EXPECT_EQ(roster.error(),
              boundary ? "the roster of nodes does not name every rank" : "the roster of nodes is malformed");
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_roster(longer, 4));
}

TEST(Roster, EveryRankIsNamedOnce) {
  NodeCard twice = second_card();
  twice.ranks[0].rank = WorldRank{3};
  EXPECT_EQ(decode_roster(encoded({first_card(), twice}), 4).error(), "the roster of nodes names rank 3 wrongly");
  NodeCard outside = second_card();
  outside.ranks[0].rank = WorldRank{4};
  EXPECT_EQ(decode_roster(encoded({first_card(), outside}), 4).error(), "the roster of nodes names rank 4 wrongly");
  outside.ranks[0].rank = WorldRank{0xFFFFFFFF};
  EXPECT_FALSE(decode_roster(encoded({first_card(), outside}), 4));
  EXPECT_FALSE(decode_roster(encoded({first_card()}), 4));
  EXPECT_FALSE(decode_roster(encoded({first_card(), second_card()}), 5));
  EXPECT_FALSE(decode_roster(encoded({first_card(), second_card()}), 0));
  EXPECT_FALSE(decode_roster({}, 0));
}

TEST(Roster, LimitsHold) {
  const auto refused = [](const NodeCard& card) {
    const auto roster = decode_roster(encoded({first_card(), card}), 4);
    return !roster && roster.error() == "the roster of nodes is malformed";
  };
  NodeCard card = second_card();
  card.ranks[0].sp = 1;  // has one only
  EXPECT_TRUE(refused(card));
  card = second_card();
  card.addresses.clear();
  EXPECT_TRUE(refused(card));
  card.addresses.assign(kMaxServices + 1, {});
  EXPECT_TRUE(refused(card));
  card.addresses.assign(kMaxServices, {});
  EXPECT_FALSE(refused(card));
  card.addresses = {std::vector<std::byte>(kMaxWireAddressBytes)};
  EXPECT_FALSE(refused(card));
  card.addresses[0].push_back(std::byte{});
  EXPECT_TRUE(refused(card));
  card = second_card();
  card.ranks.clear();
  EXPECT_TRUE(refused(card));
  card.ranks.assign(kMaxLocalRanks + 1, RankAssignment{WorldRank{2}, 0});
  EXPECT_TRUE(refused(card));
  card = second_card();
  card.name.assign(1000, 'n');
  const auto cut = decode_roster(encoded({first_card(), card}), 4);
  ASSERT_TRUE(cut) << cut.error();
  EXPECT_EQ(cut.value().nodes[1].name.size(), kMaxNodeNameBytes);
}

// What is let through is what was meant, or another roster that is one.
TEST(Roster, SpoiltBytesAreRefusedOrARosterAgain) {
  const auto good = encoded({first_card(), second_card()});
  std::mt19937_64 random(5);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = good;
    for (std::uint64_t spoils = 1 + random() % 4; spoils > 0; --spoils) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 6 == 0 ? random() : random() % 4);
    }
    const auto roster = decode_roster(bytes, 4);
    if (!roster) continue;
    ++accepted;
    ASSERT_EQ(encoded(roster.value().nodes), bytes);
    for (const SpId sp : roster.value().sp_of_rank) ASSERT_LT(sp.value(), roster.value().sp_count);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace outrigger
