#include "proof/hmac.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace outrigger::proof {
namespace {

std::vector<std::uint8_t> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

std::string in_digits(const Mac& mac) {
  std::string text;
  for (const std::uint8_t byte : mac) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
}

// The test cases 1, 2 and 6 of RFC 4231.
TEST(Hmac, IsTheOneOfTheStandard) {
  EXPECT_EQ(in_digits(hmac(std::vector<std::uint8_t>(20, 0x0b), bytes_of("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(in_digits(hmac(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(in_digits(hmac(std::vector<std::uint8_t>(131, 0xaa),
                           bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, IsComparedWhole) {
  const Mac mac = hmac(bytes_of("k"), bytes_of("m"));
  EXPECT_TRUE(same(mac, mac));
  for (std::size_t i = 0; i < mac.size(); ++i) {
    Mac other = mac;
    other[i] ^= 1;
    EXPECT_FALSE(same(mac, other)) << i;
  }
  EXPECT_FALSE(same(mac, std::span(mac).first(31)));
}

TEST(Statement, SaysWhereEachFieldEnds) {
  const auto all = [](const Statement& statement) {
    return std::vector<std::uint8_t>(statement.all().begin(), statement.all().end());
  };
  EXPECT_NE(all(Statement("a").text("bc")), all(Statement("ab").text("c")));
  EXPECT_NE(all(Statement("a").text("b").text("")), all(Statement("a").text("").text("b")));
  EXPECT_NE(all(Statement("a").number(1).number(0)), all(Statement("a").number(256).number(0)));
}

TEST(Nonces, AreNeverTheSame) {
  std::set<Nonce> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(fresh_nonce()).second);
}

TEST(DerivedSecrets, AreOfOneUse) {
  const Secret secret{1, 2, 3};
  EXPECT_EQ(derived_secret(secret, "a"), derived_secret(secret, "a"));
  EXPECT_NE(derived_secret(secret, "a"), derived_secret(secret, "b"));
  EXPECT_NE(derived_secret(secret, "a"), derived_secret(Secret{1, 2, 4}, "a"));
  EXPECT_NE(derived_secret(secret, "a"), secret);
}

}  // namespace
}  // namespace outrigger::proof
