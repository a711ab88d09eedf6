#include "protocol/wire/job_map.hpp"

#include <gtest/gtest.h>

#include <random>

namespace outrigger {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

NodeDescriptor first_descriptor() {
  NodeDescriptor descriptor;
  descriptor.name = "alpha";
  descriptor.secret.fill(7);
  descriptor.addresses = {bytes_of({1, 2, 3}), bytes_of({4})};
  descriptor.ranks = {RankAssignment{WorldRank{0}, 0}, RankAssignment{WorldRank{3}, 1},
                      RankAssignment{WorldRank{1}, 1}};
  descriptor.keeper = KeeperPlace{40000, {{1, 2}, {0xFF}}};
  return descriptor;
}

NodeDescriptor second_descriptor() {
  NodeDescriptor descriptor;
  descriptor.name = "beta";
  descriptor.secret.fill(9);
  descriptor.addresses = {{}};
  descriptor.ranks = {RankAssignment{WorldRank{2}, 0}};
  return descriptor;
}

std::vector<std::byte> all_encoded(const std::vector<NodeDescriptor>& descriptors) {
  std::vector<std::byte> bytes;
  for (const NodeDescriptor& descriptor : descriptors) encode_descriptor(descriptor, bytes);
  return bytes;
}

TEST(JobMap, CardsComeBackAsTheyWere) {
  const auto job_map = decode_job_map(all_encoded({first_descriptor(), second_descriptor()}), 4);
  ASSERT_TRUE(job_map) << job_map.error();
  EXPECT_EQ(job_map.value().nodes, (std::vector<NodeDescriptor>{first_descriptor(), second_descriptor()}));
}

TEST(JobMap, ServiceProcessesCountThroughTheNodes) {
  const auto decoded = decode_job_map(all_encoded({first_descriptor(), second_descriptor()}), 4);
  ASSERT_TRUE(decoded) << decoded.error();
  const JobMap& job_map = decoded.value();
  EXPECT_EQ(job_map.sp_count, 3U);
  EXPECT_EQ(job_map.first_sp, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(job_map.sp_of_rank, (std::vector<SpId>{SpId{0}, SpId{1}, SpId{2}, SpId{1}}));
  EXPECT_EQ(job_map.node_of(SpId{0}), 0U);
  EXPECT_EQ(job_map.node_of(SpId{1}), 0U);
  EXPECT_EQ(job_map.node_of(SpId{2}), 1U);
  EXPECT_EQ(job_map.address_of(SpId{1}), bytes_of({4}));
  EXPECT_TRUE(job_map.address_of(SpId{2}).empty());
  EXPECT_EQ(job_map.secret()[0], 7);  // the first node's
}

TEST(JobMap, NoLengthBetweenCardsIsOne) {
  const auto whole = all_encoded({first_descriptor(), second_descriptor()});
  const std::size_t first = all_encoded({first_descriptor()}).size();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this length, so that a sanitizer finds reads past its end.
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const auto job_map = decode_job_map(cut, 4);
    ASSERT_FALSE(job_map) << length;
    const bool boundary = length == 0 || length == first;
    EXPECT_EQ(job_map.error(), boundary ? "the job map does not contain every rank" : "the job map is malformed");
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_job_map(longer, 4));
}

TEST(JobMap, EveryRankIsNamedOnce) {
  NodeDescriptor twice = second_descriptor();
  twice.ranks[0].rank = WorldRank{3};
  EXPECT_EQ(decode_job_map(all_encoded({first_descriptor(), twice}), 4).error(),
            "the job map has an invalid or repeated rank 3");
  NodeDescriptor outside = second_descriptor();
  outside.ranks[0].rank = WorldRank{4};
  EXPECT_EQ(decode_job_map(all_encoded({first_descriptor(), outside}), 4).error(),
            "the job map has an invalid or repeated rank 4");
  outside.ranks[0].rank = WorldRank{0xFFFFFFFF};
  EXPECT_FALSE(decode_job_map(all_encoded({first_descriptor(), outside}), 4));
  EXPECT_FALSE(decode_job_map(all_encoded({first_descriptor()}), 4));
  EXPECT_FALSE(decode_job_map(all_encoded({first_descriptor(), second_descriptor()}), 5));
  EXPECT_FALSE(decode_job_map(all_encoded({first_descriptor(), second_descriptor()}), 0));
  EXPECT_FALSE(decode_job_map({}, 0));
}

TEST(JobMap, LimitsHold) {
  const auto refused = [](const NodeDescriptor& descriptor) {
    const auto job_map = decode_job_map(all_encoded({first_descriptor(), descriptor}), 4);
    return !job_map && job_map.error() == "the job map is malformed";
  };
  NodeDescriptor descriptor = second_descriptor();
  descriptor.ranks[0].sp = 1;  // has only one
  EXPECT_TRUE(refused(descriptor));
  descriptor = second_descriptor();
  descriptor.addresses.clear();
  EXPECT_TRUE(refused(descriptor));
  descriptor.addresses.assign(kMaxServices + 1, {});
  EXPECT_TRUE(refused(descriptor));
  descriptor.addresses.assign(kMaxServices, {});
  EXPECT_FALSE(refused(descriptor));
  descriptor.addresses = {std::vector<std::byte>(kMaxWireAddressBytes)};
  EXPECT_FALSE(refused(descriptor));
  descriptor.addresses[0].push_back(std::byte{});
  EXPECT_TRUE(refused(descriptor));
  descriptor = second_descriptor();
  descriptor.ranks.clear();
  EXPECT_TRUE(refused(descriptor));
  descriptor.ranks.assign(kMaxLocalRanks + 1, RankAssignment{WorldRank{2}, 0});
  EXPECT_TRUE(refused(descriptor));
  descriptor = second_descriptor();
  descriptor.keeper.addresses.assign(kMaxKeeperAddresses + 3, {});
  const auto fewer = decode_job_map(all_encoded({first_descriptor(), descriptor}), 4);
  ASSERT_TRUE(fewer) << fewer.error();
  EXPECT_EQ(fewer.value().nodes[1].keeper.addresses.size(), kMaxKeeperAddresses);
  descriptor = second_descriptor();
  descriptor.name.assign(1000, 'n');
  const auto cut = decode_job_map(all_encoded({first_descriptor(), descriptor}), 4);
  ASSERT_TRUE(cut) << cut.error();
  EXPECT_EQ(cut.value().nodes[1].name.size(), kMaxNodeNameBytes);
}

// Accepted bytes are the original job map, or another valid one.
TEST(JobMap, SpoiltBytesAreRefusedOrAJobMapAgain) {
  const auto good = all_encoded({first_descriptor(), second_descriptor()});
  std::mt19937_64 random(5);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = good;
    for (std::uint64_t spoils = 1 + random() % 4; spoils > 0; --spoils) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 6 == 0 ? random() : random() % 4);
    }
    const auto job_map = decode_job_map(bytes, 4);
    if (!job_map) continue;
    ++accepted;
    ASSERT_EQ(all_encoded(job_map.value().nodes), bytes);
    for (const SpId sp : job_map.value().sp_of_rank) ASSERT_LT(sp.value(), job_map.value().sp_count);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace outrigger
