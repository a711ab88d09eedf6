// A host's keeper and a DPU that greet each other over a socket.
#include "proof/dpu_greeting.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "protocol/build_version.hpp"

namespace outrigger::proof {
namespace {

using namespace std::chrono_literals;
using Side = DpuGreeting::Side;
using Bytes = std::vector<std::byte>;

struct Ends {
  UniqueFd host;
  UniqueFd dpu;
};

Ends make_ends() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
  return Ends{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// What each says of it: empty is well.
std::array<std::string, 2> greet(Ends& ends, const Secret& of_host, const Secret& of_dpu) {
  const auto deadline = DpuGreeting::Clock::now() + 5s;
  auto dpu = std::async(std::launch::async, [&] {
    const Status greeted = greet_dpu(ends.dpu.get(), Side::dpu, of_dpu, deadline);
    if (!greeted) ends.dpu.reset();
    return greeted ? std::string() : greeted.error();
  });
  const Status host = greet_dpu(ends.host.get(), Side::host, of_host, deadline);
  return {host ? std::string() : host.error(), dpu.get()};
}

// The four messages of a greeting between these two.
struct Said {
  Bytes host;
  Bytes dpu;
  Bytes host_proof;
  Bytes dpu_proof;
};

Said between(DpuGreeting& host, DpuGreeting& dpu) {
  Said said{host.begin(), dpu.begin(), {}, {}};
  EXPECT_TRUE(dpu.hear(said.host).value().empty());
  said.host_proof = host.hear(said.dpu).value();
  said.dpu_proof = dpu.hear(said.host_proof).value();
  EXPECT_TRUE(host.hear(said.dpu_proof).value().empty());
  EXPECT_EQ(host.awaited() + dpu.awaited(), 0U);
  return said;
}

TEST(DpuGreeting, WorksWithTheSameSecret) {
  Ends ends = make_ends();
  EXPECT_EQ(greet(ends, Secret{1}, Secret{1}), (std::array<std::string, 2>{}));
  std::byte more{};
  EXPECT_EQ(::recv(ends.host.get(), &more, 1, MSG_DONTWAIT), -1) << "frames are next, and nothing of the greeting";
}

TEST(DpuGreeting, RefusesAnotherSecret) {
  Ends ends = make_ends();
  const auto said = greet(ends, Secret{1}, Secret{2});
  EXPECT_NE(said[0].find("secret"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("secret"), std::string::npos) << said[1];
}

TEST(DpuGreeting, RefusesWhatIsNotOurs) {
  Ends ends = make_ends();
  const std::array<char, 64> noise{'G', 'E', 'T', ' ', '/'};
  ASSERT_EQ(::send(ends.host.get(), noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  const Status greeted = greet_dpu(ends.dpu.get(), Side::dpu, Secret{}, DpuGreeting::Clock::now() + 1s);
  ASSERT_FALSE(greeted);
  EXPECT_NE(greeted.error().find("not an Outrigger process"), std::string::npos) << greeted.error();
}

TEST(DpuGreeting, DoesNotWaitForWhoSaysHalf) {
  Ends ends = make_ends();
  DpuVisitor visitor(ends.dpu.get(), Side::dpu, Secret{1});
  DpuGreeting host(Side::host, Secret{1});
  const Bytes begin = host.begin();
  for (const std::byte& byte : begin) {
    EXPECT_TRUE(visitor.go_on());
    ASSERT_EQ(::send(ends.host.get(), &byte, 1, 0), 1);
  }
  EXPECT_TRUE(visitor.go_on());
  EXPECT_FALSE(visitor.greeted());
  ends.host.reset();
  const Status gone = visitor.go_on();
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().find("closed the connection"), std::string::npos) << gone.error();
}

TEST(DpuGreeting, RecordedIsRefused) {
  const Secret secret{3};
  DpuGreeting host(Side::host, secret);
  DpuGreeting dpu(Side::dpu, secret);
  const Said said = between(host, dpu);
  DpuGreeting later_dpu(Side::dpu, secret);
  EXPECT_TRUE(later_dpu.hear(said.host));
  EXPECT_FALSE(later_dpu.hear(said.host_proof));
  EXPECT_NE(later_dpu.awaited(), 0U);
  DpuGreeting later_host(Side::host, secret);
  EXPECT_TRUE(later_host.hear(said.dpu));
  EXPECT_FALSE(later_host.hear(said.dpu_proof));
  EXPECT_NE(later_host.awaited(), 0U);
}

TEST(DpuGreeting, SentBackIsRefused) {
  DpuGreeting host(Side::host, Secret{3});
  EXPECT_FALSE(host.hear(host.begin()));
  Bytes disguised = host.begin();
  disguised[12] = std::byte{2};  // of a DPU
  const auto proof = host.hear(disguised);
  ASSERT_TRUE(proof);
  EXPECT_FALSE(host.hear(proof.value())) << "its own proof";
}

TEST(DpuGreeting, ChecksEveryField) {
  const Bytes right = DpuGreeting(Side::host, Secret{3}).begin();
  ASSERT_EQ(right.size(), 48U);
  std::array<std::uint32_t, 4> fixed{};
  std::memcpy(fixed.data(), right.data(), sizeof(fixed));
  EXPECT_EQ(fixed, (std::array<std::uint32_t, 4>{0x4744524F, build_version(), 1, 1}));
  for (std::size_t at = 0; at < sizeof(fixed); ++at) {
    Bytes wrong = right;
    wrong[at] ^= std::byte{0x40};
    const auto heard = DpuGreeting(Side::dpu, Secret{3}).hear(wrong);
    ASSERT_FALSE(heard) << at;
    EXPECT_EQ(heard.error().find("version") != std::string::npos, at >= 4 && at < 8) << heard.error();
  }
  for (const std::size_t length : {0U, 1U, 47U}) {
    EXPECT_FALSE(DpuGreeting(Side::dpu, Secret{3}).hear(std::span(right).first(length)));
  }
}

// Whoever is in between and changes anything, of any message, makes that the two do not meet.
TEST(DpuGreeting, ProvesEveryBitOfBothNonces) {
  for (std::size_t bit = 0; bit < 2 * 32 * 8; ++bit) {
    DpuGreeting host(Side::host, Secret{3});
    DpuGreeting dpu(Side::dpu, Secret{3});
    Bytes to_dpu = host.begin();
    Bytes to_host = dpu.begin();
    Bytes& changed = bit % 2 == 0 ? to_dpu : to_host;
    changed[16 + bit / 16] ^= static_cast<std::byte>(1U << (bit / 2 % 8));
    EXPECT_TRUE(dpu.hear(to_dpu));
    EXPECT_FALSE(dpu.hear(host.hear(to_host).value())) << bit;
  }
}

}  // namespace
}  // namespace outrigger::proof
