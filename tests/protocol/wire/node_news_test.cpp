#include "protocol/wire/node_news.hpp"

#include <gtest/gtest.h>

#include <random>

#include "protocol/wire/job_map.hpp"

namespace outrigger {
namespace {

std::vector<NodeNews> one_of_each() {
  return {{NodeNewsKind::moved, 3, SpId{9}, Epoch{2}, std::vector<std::byte>(70, std::byte{5})},
          {NodeNewsKind::taken, 3, SpId{9}, Epoch{2}, {}},
          {NodeNewsKind::ask, 0, SpId{1}, Epoch{0}, {}},
          {NodeNewsKind::here, 0, SpId{1}, Epoch{3}, {}},
          {NodeNewsKind::counts, 0, SpId{4}, Epoch{0}, std::vector<std::byte>(90, std::byte{6})},
          {NodeNewsKind::counted, 2, SpId{4}, Epoch{0}, {}}};
}

std::vector<std::byte> all_encoded(const std::vector<NodeNews>& all) {
  std::vector<std::byte> bytes;
  for (const NodeNews& news : all) append(bytes, news);
  return bytes;
}

bool is_refused(const NodeNews& news) {
  return !parse<NodeNews>(all_encoded({news}));
}

TEST(NodeNews, ComeBackAsTheyWereOneAfterTheOther) {
  const std::vector<std::byte> bytes = all_encoded(one_of_each());
  std::span<const std::byte> rest(bytes);
  for (const NodeNews& news : one_of_each()) {
    const auto parsed = parse<NodeNews>(rest);
    ASSERT_TRUE(parsed) << parsed.error();
    ASSERT_TRUE(parsed.value());
    EXPECT_EQ(parsed.value()->message, news);
    rest = rest.subspan(parsed.value()->bytes);
  }
  EXPECT_TRUE(rest.empty());
}

TEST(NodeNews, WaitForTheirLastByte) {
  for (const NodeNews& news : one_of_each()) {
    const std::vector<std::byte> bytes = all_encoded({news});
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const auto parsed = parse<NodeNews>(std::span(bytes).first(length));
      ASSERT_TRUE(parsed) << parsed.error();
      EXPECT_FALSE(parsed.value()) << length;
    }
  }
}

TEST(NodeNews, FieldsAreChecked) {
  NodeNews moved = one_of_each()[0];
  moved.bytes.resize(kMaxWireAddressBytes);
  EXPECT_FALSE(is_refused(moved));
  moved.bytes.resize(kMaxWireAddressBytes + 1);
  EXPECT_TRUE(is_refused(moved));
  moved.bytes.clear();
  EXPECT_TRUE(is_refused(moved));
  moved = one_of_each()[0];
  moved.epoch = Epoch{1};
  EXPECT_TRUE(is_refused(moved));
  for (std::size_t i = 1; i < 4; ++i) {
    NodeNews news = one_of_each()[i];
    news.bytes.resize(1);
    EXPECT_TRUE(is_refused(news)) << i;
    news = one_of_each()[i];
    news.epoch = Epoch{1};
    EXPECT_EQ(is_refused(news), news.kind != NodeNewsKind::here) << i;
    news.kind = static_cast<NodeNewsKind>(i == 1 ? 0 : 7);
    EXPECT_TRUE(is_refused(news)) << i;
  }
  NodeNews counts = one_of_each()[4];
  counts.bytes.resize(kMaxCountsBytes);
  EXPECT_FALSE(is_refused(counts));
  counts.bytes.resize(kMaxCountsBytes + 1);
  EXPECT_TRUE(is_refused(counts));
  counts.bytes.clear();
  EXPECT_TRUE(is_refused(counts));
  for (std::size_t i = 4; i < 6; ++i) {
    NodeNews news = one_of_each()[i];
    news.epoch = Epoch{1};
    EXPECT_TRUE(is_refused(news)) << i;
  }
  NodeNews counted = one_of_each()[5];
  counted.bytes.resize(1);
  EXPECT_TRUE(is_refused(counted));
  std::vector<std::byte> bytes = all_encoded(one_of_each());
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(parse<NodeNews>(bytes));
}

TEST(NodeNews, SpoiltOnesAreRefusedOrAreOthers) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes = all_encoded({one_of_each()[random() % 6]});
    for (std::uint64_t spoilt = 1 + random() % 3; spoilt > 0; --spoilt) {
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    }
    const auto parsed = parse<NodeNews>(bytes);
    if (!parsed || !parsed.value()) continue;
    const auto again = all_encoded({parsed.value()->message});
    EXPECT_TRUE(std::equal(again.begin(), again.end(), bytes.begin()));
  }
}

}  // namespace
}  // namespace outrigger
