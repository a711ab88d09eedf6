// What a keeper and a DPU say to each other: the greeting, the frames, and what is not one.
#include "protocol/dpu_link.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <thread>
#include <vector>

#include "protocol/keyed_hash.hpp"
#include "protocol/rank_address.hpp"

namespace outrigger {
namespace {

using namespace std::chrono_literals;
using Side = DpuLink::Side;

std::vector<std::byte> these(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

struct Ends {
  DpuLink host;
  DpuLink dpu;
};

Ends make_ends() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
  return Ends{DpuLink(UniqueFd(fds[0])), DpuLink(UniqueFd(fds[1]))};
}

// What each says of it: empty is well.
std::array<std::string, 2> greet(Ends& ends, const Secret& of_host, const Secret& of_dpu) {
  const auto deadline = DpuLink::Clock::now() + 5s;
  auto dpu = std::async(std::launch::async, [&] {
    Status greeted = ends.dpu.greet(Side::dpu, of_dpu, deadline);
    if (!greeted) ends.dpu.close();
    return greeted ? std::string() : greeted.error();
  });
  const Status host = ends.host.greet(Side::host, of_host, deadline);
  return {host ? std::string() : host.error(), dpu.get()};
}

TEST(KeyedHash, IsSipHashWith128Bits) {
  Secret key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(i);
  const Tag of_nothing{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
  const Tag of_zero{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
  EXPECT_EQ(keyed_hash(key, {}), of_nothing);
  EXPECT_EQ(keyed_hash(key, these({0})), of_zero);
  EXPECT_TRUE(same_tag(of_zero, of_zero));
  EXPECT_FALSE(same_tag(of_zero, of_nothing));
}

TEST(KeyedHash, SecretsAreHexadecimal) {
  const std::string digits(64, 'a');
  ASSERT_TRUE(secret_of_text(digits).ok());
  EXPECT_EQ(secret_of_text(" " + digits + "\r\n").value(), secret_of_text(digits).value());
  EXPECT_NE(secret_of_text(digits + "b").value(), secret_of_text(digits).value());
  for (const std::string& wrong : {std::string(), std::string(31, 'a'), digits + "x", std::string(4096, '0')}) {
    EXPECT_FALSE(secret_of_text(wrong).ok()) << wrong.size();
  }
}

TEST(DpuLink, GreetsWithTheSameSecret) {
  Ends ends = make_ends();
  EXPECT_EQ(greet(ends, Secret{1}, Secret{1}), (std::array<std::string, 2>{}));
}

TEST(DpuLink, RefusesAnotherSecret) {
  Ends ends = make_ends();
  const auto said = greet(ends, Secret{1}, Secret{2});
  EXPECT_NE(said[0].find("secret"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("secret"), std::string::npos) << said[1];
}

TEST(DpuLink, RefusesWhatIsNotOurs) {
  Ends ends = make_ends();
  const std::array<char, 64> noise{'G', 'E', 'T', ' ', '/'};
  ASSERT_EQ(::send(ends.host.fd(), noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  const Status greeted = ends.dpu.greet(Side::dpu, Secret{}, DpuLink::Clock::now() + 1s);
  ASSERT_FALSE(greeted);
  EXPECT_NE(greeted.error().find("not Outrigger's"), std::string::npos) << greeted.error();
}

TEST(DpuLink, CarriesFramesInOrder) {
  Ends ends = make_ends();
  const std::vector<std::byte> packet = these({1, 2, 3});
  const std::vector<std::byte> large(300'000, std::byte{7});
  ends.host.send(DpuFrameKind::control, 3, packet, large);
  ends.host.send(DpuFrameKind::alive, 0, {});
  std::vector<DpuFrame> frames;
  const auto deadline = DpuLink::Clock::now() + 5s;
  while (frames.size() < 2 && DpuLink::Clock::now() < deadline) {
    ends.host.work(DpuLink::Clock::now());
    ends.dpu.work(DpuLink::Clock::now());
    while (auto frame = ends.dpu.next()) frames.push_back(std::move(*frame));
  }
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].kind, DpuFrameKind::control);
  EXPECT_EQ(frames[0].sp, 3U);
  EXPECT_EQ(frames[0].packet, packet);
  EXPECT_EQ(frames[0].attached, large);
  EXPECT_EQ(frames[1].kind, DpuFrameKind::alive);
}

TEST(DpuLink, EndsWithASilentOrNonsensicalOtherEnd) {
  Ends silent = make_ends();
  const auto now = DpuLink::Clock::now();
  for (auto passed = 0s; passed < kDpuSilence; passed += 1s) silent.host.tick(now + passed);
  EXPECT_TRUE(silent.host.open());
  silent.host.tick(now + kDpuSilence + 1s);
  EXPECT_FALSE(silent.host.open());
  EXPECT_EQ(silent.host.problem(), "it does not answer");

  Ends mad = make_ends();
  const std::array<char, 64> noise{'x'};
  ASSERT_EQ(::send(mad.dpu.fd(), noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  mad.host.work(now);
  EXPECT_FALSE(mad.host.next().has_value());
  EXPECT_FALSE(mad.host.open());
  EXPECT_NE(mad.host.problem().find("not to be understood"), std::string::npos);
}

TEST(DpuLink, DoesNotCountTheTimeInWhichItStoodStillItself) {
  Ends ends = make_ends();
  auto now = DpuLink::Clock::now();
  for (int suspended = 0; suspended < 3; ++suspended) {
    now += 600s;
    ends.host.tick(now);
    EXPECT_TRUE(ends.host.open());
  }
  for (auto passed = 0s; passed <= kDpuSilence + 1s; passed += 1s) ends.host.tick(now + passed);
  EXPECT_FALSE(ends.host.open());
}

TEST(DpuLink, CutFramesAreWaitedFor) {
  const auto frame = encode_dpu_frame(DpuFrameKind::job, 0, these({1, 2}), these({3}));
  for (std::size_t cut = 0; cut < frame.size(); ++cut) {
    const auto parsed = parse_dpu_frame(std::span(frame).first(cut));
    ASSERT_TRUE(parsed.ok());
    EXPECT_FALSE(parsed.value().has_value()) << cut;
  }
  const auto whole = parse_dpu_frame(frame);
  ASSERT_TRUE(whole.ok() && whole.value());
  EXPECT_EQ(whole.value()->bytes, frame.size());
}

TEST(RankAddress, ComesBackAsItWas) {
  const RankAddress address{0x7000, 42, these({1, 2, 3}), these({4}), {}};
  const auto bytes = encode_rank_address(address);
  ASSERT_TRUE(decode_rank_address(bytes).ok());
  EXPECT_EQ(decode_rank_address(bytes).value(), address);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(decode_rank_address(std::span(bytes).first(cut)).ok()) << cut;
  }
  EXPECT_FALSE(decode_rank_address(encode_rank_address({0x7001, 42, {std::byte{1}}, {std::byte{1}}, {}})).ok());
  EXPECT_FALSE(decode_rank_address(encode_rank_address({0x7000, 42, {}, {std::byte{1}}, {}})).ok());
}

}  // namespace
}  // namespace outrigger
