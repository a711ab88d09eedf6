// Messages between a keeper and a DPU: the secret, valid frames, and invalid ones.
#include "protocol/wire/dpu_link.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

#include "protocol/options/secret_text.hpp"
#include "protocol/wire/rank_address.hpp"

namespace outrigger {
namespace {

using namespace std::chrono_literals;

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

TEST(SecretText, IsHexadecimalAndNothingElse) {
  const std::string digits = "00ff10A9abcdef0123456789fedcba98";
  const Result<Secret> secret = secret_of_text(digits);
  ASSERT_TRUE(secret.ok());
  EXPECT_EQ(secret.value(),
            (Secret{0x00, 0xff, 0x10, 0xa9, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xfe, 0xdc, 0xba, 0x98}));
  EXPECT_EQ(secret_of_text(" " + digits + "\r\n").value(), secret.value());
  for (const std::string& wrong :
       {std::string(), std::string(31, 'a'), std::string(33, 'a'), std::string(31, 'a') + "x",
        std::string(16, 'a') + " " + std::string(15, 'a'), std::string(4096, '0')}) {
    EXPECT_FALSE(secret_of_text(wrong).ok()) << wrong.size();
  }
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
  EXPECT_NE(mad.host.problem().find("malformed"), std::string::npos);
}

// The other end may have left bytes unread (ECONNRESET), or this end may be the first to notice by sending (EPIPE).
TEST(DpuLink, OtherEndClosesWithAndWithoutUnreadBytes) {
  for (const bool unread : {false, true}) {
    for (const bool sends : {false, true}) {
      std::array<int, 2> fds{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
      DpuLink host((UniqueFd(fds[0])));
      UniqueFd dpu(fds[1]);
      if (unread) host.send(DpuFrameKind::alive, 0, {});
      dpu.reset();
      if (sends) host.send(DpuFrameKind::alive, 0, {});
      host.work(DpuLink::Clock::now());
      EXPECT_FALSE(host.open());
      EXPECT_TRUE(host.ended_by_other());
      EXPECT_EQ(host.problem(), "the connection was closed") << unread << sends;
    }
  }
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
  const auto frame = encoded(DpuFrame{DpuFrameKind::job, 0, these({1, 2}), these({3})});
  for (std::size_t cut = 0; cut < frame.size(); ++cut) {
    const auto parsed = parse<DpuFrame>(std::span(frame).first(cut));
    ASSERT_TRUE(parsed.ok());
    EXPECT_FALSE(parsed.value().has_value()) << cut;
  }
  const auto whole = parse<DpuFrame>(frame);
  ASSERT_TRUE(whole.ok() && whole.value());
  EXPECT_EQ(whole.value()->bytes, frame.size());
}

TEST(RankAddress, ComesBackAsItWas) {
  const RankAddress address{0x7000, 42, these({1, 2, 3}), these({4}), {}};
  const auto bytes = encoded(address);
  ASSERT_TRUE(decode_rank_address(bytes).ok());
  EXPECT_EQ(decode_rank_address(bytes).value(), address);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(decode_rank_address(std::span(bytes).first(cut)).ok()) << cut;
  }
  EXPECT_FALSE(decode_rank_address(encoded(RankAddress{0x7001, 42, {std::byte{1}}, {std::byte{1}}, {}})).ok());
  EXPECT_FALSE(decode_rank_address(encoded(RankAddress{0x7000, 42, {}, {std::byte{1}}, {}})).ok());
}

}  // namespace
}  // namespace outrigger
