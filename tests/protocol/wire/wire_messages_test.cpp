#include "protocol/wire/wire_messages.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace outrigger::wire {
namespace {

Header some_header() {
  Header header;
  header.kind = Kind::push;
  header.status = 2;
  header.from = SpId{0x01020304};
  header.move = 0x1122334455667788;
  header.offset = 0x2233445566778899;
  header.bytes = kMaxChunkBytes;
  header.memory = MemoryRef{WorldRank{0x0A0B0C0D}, RegionId{0x0E0F1011}, 0xFFEEDDCCBBAA9988};
  return header;
}

// Offsets of fields, which other builds rely on.
constexpr std::size_t kKindAt = 4;
constexpr std::size_t kStatusAt = 6;
constexpr std::size_t kFromAt = 8;
constexpr std::size_t kMoveAt = 12;
constexpr std::size_t kOffsetAt = 20;
constexpr std::size_t kBytesAt = 28;
constexpr std::size_t kOwnerAt = 36;
constexpr std::size_t kRegionAt = 40;
constexpr std::size_t kAddressAt = 44;
constexpr std::size_t kEnd = 52;

template <class T>
T value_at(const std::vector<std::byte>& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <class T>
std::optional<Header> decoded_with(std::size_t at, T value) {
  std::vector<std::byte> bytes = encoded(some_header());
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return decoded<Header>(bytes);
}

TEST(WireHeader, ComesBackAsItWas) {
  for (auto kind = static_cast<std::uint16_t>(Kind::message); kind <= static_cast<std::uint16_t>(Kind::reduced_request);
       ++kind) {
    Header header = some_header();
    header.kind = static_cast<Kind>(kind);
    const auto back = decoded<Header>(encoded(header));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->kind, header.kind);
    EXPECT_EQ(back->status, header.status);
    EXPECT_EQ(back->from, header.from);
    EXPECT_EQ(back->move, header.move);
    EXPECT_EQ(back->offset, header.offset);
    EXPECT_EQ(back->bytes, header.bytes);
    EXPECT_EQ(back->memory, header.memory);
  }
}

TEST(WireHeader, FieldsAreWhereTheyAreSaidToBe) {
  const std::vector<std::byte> bytes = encoded(some_header());
  EXPECT_EQ(value_at<std::uint32_t>(bytes, 0), kMagic);
  EXPECT_EQ(value_at<std::uint16_t>(bytes, kKindAt), 4U);
  EXPECT_EQ(value_at<std::uint16_t>(bytes, kStatusAt), 2U);
  EXPECT_EQ(value_at<std::uint32_t>(bytes, kFromAt), some_header().from.value());
  EXPECT_EQ(value_at<std::uint32_t>(bytes, kOwnerAt), some_header().memory.owner.value());
  EXPECT_EQ(value_at<std::uint64_t>(bytes, kMoveAt), some_header().move);
  EXPECT_EQ(value_at<std::uint64_t>(bytes, kOffsetAt), some_header().offset);
  EXPECT_EQ(value_at<std::uint64_t>(bytes, kBytesAt), some_header().bytes);
  EXPECT_EQ(value_at<std::uint64_t>(bytes, kAddressAt), some_header().memory.address);
  EXPECT_EQ(value_at<std::uint32_t>(bytes, kRegionAt), some_header().memory.region.value());
  EXPECT_EQ(bytes.size(), kEnd);
}

TEST(WireHeader, EveryOtherLengthIsRefused) {
  const std::vector<std::byte> bytes = encoded(some_header());
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decoded<Header>(longer));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(decoded<Header>(cut)) << length;
  }
}

TEST(WireHeader, EveryFieldIsChecked) {
  ASSERT_TRUE(decoded<Header>(encoded(some_header())));
  EXPECT_FALSE(decoded_with<std::uint32_t>(0, kMagic - 1));
  for (const int kind : {0, 13, 0x0104, 0xFFFF}) {
    EXPECT_FALSE(decoded_with(kKindAt, static_cast<std::uint16_t>(kind))) << kind;
  }
  for (const int status : {3, 4, 0x0100, 0xFFFF}) {
    EXPECT_FALSE(decoded_with(kStatusAt, static_cast<std::uint16_t>(status))) << status;
  }
  EXPECT_FALSE(decoded_with<std::uint64_t>(kBytesAt, kMaxChunkBytes + 1));
  EXPECT_FALSE(decoded_with<std::uint64_t>(kBytesAt, std::numeric_limits<std::uint64_t>::max()));
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max() - kMaxChunkBytes;
  EXPECT_TRUE(decoded_with<std::uint64_t>(kOffsetAt, last));
  EXPECT_FALSE(decoded_with<std::uint64_t>(kOffsetAt, last + 1));
}

TEST(WireHeader, WhatIsLetThroughEncodesToTheSameBytes) {
  std::mt19937_64 random(9);
  const std::vector<std::byte> good = encoded(some_header());
  int accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::vector<std::byte> bytes = good;
    for (std::uint64_t spoils = 1 + random() % 3; spoils > 0; --spoils) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 3 == 0 ? random() % 4 : random());
    }
    const auto header = decoded<Header>(bytes);
    if (!header) continue;
    ++accepted;
    ASSERT_EQ(encoded(*header), bytes);
  }
  EXPECT_GT(accepted, 1000);
}

TEST(WireToken, StandsBehindTheHeaderAndIsComparedWhole) {
  Token token{};
  for (std::size_t i = 0; i < token.size(); ++i) token[i] = static_cast<std::uint8_t>(i + 1);
  const std::vector<std::byte> bytes = encoded(Shown{some_header(), token});
  const auto shown = decoded<Shown>(bytes);
  ASSERT_TRUE(shown);
  EXPECT_EQ(encoded(shown->header), encoded(some_header()));
  EXPECT_EQ(shown->token, token);
  EXPECT_EQ(std::memcmp(bytes.data() + kEnd, token.data(), token.size()), 0);
  EXPECT_TRUE(same_token(shown->token, token));
  for (std::size_t i = 0; i < token.size(); ++i) {
    Token other = token;
    other[i] ^= 0x80;
    EXPECT_FALSE(same_token(other, token)) << i;
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decoded<Shown>(std::span(bytes).first(length))) << length;
  }
}

TEST(WireBatch, IsTakenApartAsItWasPutTogether) {
  std::vector<std::byte> batch;
  const std::vector<std::byte> payload(100, std::byte{7});
  for (const std::size_t bytes : {0U, 1U, 100U}) {
    append(batch, Framed{some_header(), std::span(payload).first(bytes)});
  }
  std::span<const std::byte> rest(batch);
  for (const std::size_t bytes : {0U, 1U, 100U}) {
    const auto framed = take_first<Framed>(rest);
    ASSERT_TRUE(framed);
    EXPECT_EQ(framed->header.move, some_header().move);
    EXPECT_EQ(framed->payload.size(), bytes);
  }
  EXPECT_TRUE(rest.empty());
  for (std::size_t length = 0; length < batch.size(); ++length) {
    std::span<const std::byte> cut = std::span(batch).first(length);
    std::size_t messages = 0;
    while (take_first<Framed>(cut)) ++messages;
    EXPECT_LT(messages, 3U) << length;
  }
  Header nested = some_header();
  nested.kind = Kind::batch;
  std::vector<std::byte> of_batches;
  append(of_batches, Framed{nested, {}});
  rest = of_batches;
  EXPECT_FALSE(take_first<Framed>(rest));
}

TEST(WireBlockId, ComesBackAsItWasAndNeedsAllItsBytes) {
  const BlockId id{OperationId{GroupId{0x0102030405060708, 0x1112131415161718}, 0x2122232425262728},
                   GroupRank{0x31323334}, GroupRank{0x41424344}};
  const std::vector<std::byte> bytes = encoded(id);
  EXPECT_EQ(decoded<BlockId>(bytes), id);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decoded<BlockId>(std::span(bytes).first(length))) << length;
  }
}

OtherOperands some_operands(std::size_t others) {
  OtherOperands operands{Reduction{ReduceOperation::bxor, ElementType::int32}, {}};
  for (std::size_t i = 0; i < others; ++i) {
    operands.others.push_back(MemoryRef{WorldRank{static_cast<std::uint32_t>(i)}, RegionId{7}, 0xFFEEDDCCBBAA9988 + i});
  }
  return operands;
}

TEST(OperandsOfARequest, ComeBackAsTheyWere) {
  for (const std::size_t others : {std::size_t{1}, std::size_t{2}, kMaxOtherOperands}) {
    EXPECT_EQ(decoded<OtherOperands>(encoded(some_operands(others))), some_operands(others));
  }
}

TEST(OperandsOfARequest, AreCheckedByteByByte) {
  const std::vector<std::byte> good = encoded(some_operands(2));
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(decoded<OtherOperands>(std::span(good).first(length))) << length;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decoded<OtherOperands>(longer));
  struct Change {
    std::size_t at;
    int value;
    const char* what;
  };
  for (const Change& change : {Change{0, 0, "no operation"}, Change{0, 13, "no operation"}, Change{1, 0, "no type"},
                               Change{1, 28, "no type"}, Change{1, 9, "bits of floats"}, Change{2, 0, "none"},
                               Change{2, 3, "more than there are"}, Change{2, 128, "too many"}}) {
    std::vector<std::byte> bad = good;
    bad[change.at] = static_cast<std::byte>(change.value);
    EXPECT_FALSE(decoded<OtherOperands>(bad)) << change.what;
  }
}

}  // namespace
}  // namespace outrigger::wire
