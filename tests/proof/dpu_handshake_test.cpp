// The handshake of a host's keeper and a DPU over a socket.
#include "proof/dpu_handshake.hpp"

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
using Side = DpuHandshake::Side;
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

// The result at each end; empty: success.
std::array<std::string, 2> shake_hands(Ends& ends, const Secret& of_host, const Secret& of_dpu) {
  const auto deadline = DpuHandshake::Clock::now() + 5s;
  auto dpu = std::async(std::launch::async, [&] {
    const Status status = run_dpu_handshake(ends.dpu.get(), Side::dpu, of_dpu, deadline);
    if (!status) ends.dpu.reset();
    return status ? std::string() : status.error();
  });
  const Status host = run_dpu_handshake(ends.host.get(), Side::host, of_host, deadline);
  return {host ? std::string() : host.error(), dpu.get()};
}

// The four messages of a handshake between these two.
struct Said {
  Bytes host;
  Bytes dpu;
  Bytes host_proof;
  Bytes dpu_proof;
};

Said between(DpuHandshake& host, DpuHandshake& dpu) {
  Said said{host.begin(), dpu.begin(), {}, {}};
  EXPECT_TRUE(dpu.receive(said.host).value().empty());
  said.host_proof = host.receive(said.dpu).value();
  said.dpu_proof = dpu.receive(said.host_proof).value();
  EXPECT_TRUE(host.receive(said.dpu_proof).value().empty());
  EXPECT_EQ(host.awaited() + dpu.awaited(), 0U);
  return said;
}

TEST(DpuHandshake, WorksWithTheSameSecret) {
  Ends ends = make_ends();
  EXPECT_EQ(shake_hands(ends, Secret{1}, Secret{1}), (std::array<std::string, 2>{}));
  std::byte more{};
  EXPECT_EQ(::recv(ends.host.get(), &more, 1, MSG_DONTWAIT), -1) << "frames are next, and nothing of the handshake";
}

TEST(DpuHandshake, RefusesAnotherSecret) {
  Ends ends = make_ends();
  const auto said = shake_hands(ends, Secret{1}, Secret{2});
  EXPECT_NE(said[0].find("secret"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("secret"), std::string::npos) << said[1];
}

TEST(DpuHandshake, RefusesWhatIsNotOurs) {
  Ends ends = make_ends();
  const std::array<char, 64> noise{'G', 'E', 'T', ' ', '/'};
  ASSERT_EQ(::send(ends.host.get(), noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  const Status status = run_dpu_handshake(ends.dpu.get(), Side::dpu, Secret{}, DpuHandshake::Clock::now() + 1s);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().find("not an Outrigger process"), std::string::npos) << status.error();
}

TEST(DpuHandshake, DoesNotWaitForWhoSaysHalf) {
  Ends ends = make_ends();
  DpuHandshakeSocket handshake(ends.dpu.get(), Side::dpu, Secret{1});
  DpuHandshake host(Side::host, Secret{1});
  const Bytes begin = host.begin();
  for (const std::byte& byte : begin) {
    EXPECT_TRUE(handshake.go_on());
    ASSERT_EQ(::send(ends.host.get(), &byte, 1, 0), 1);
  }
  EXPECT_TRUE(handshake.go_on());
  EXPECT_FALSE(handshake.done());
  ends.host.reset();
  const Status gone = handshake.go_on();
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().find("closed the connection"), std::string::npos) << gone.error();
}

TEST(DpuHandshake, RecordedIsRefused) {
  const Secret secret{3};
  DpuHandshake host(Side::host, secret);
  DpuHandshake dpu(Side::dpu, secret);
  const Said said = between(host, dpu);
  DpuHandshake later_dpu(Side::dpu, secret);
  EXPECT_TRUE(later_dpu.receive(said.host));
  EXPECT_FALSE(later_dpu.receive(said.host_proof));
  EXPECT_NE(later_dpu.awaited(), 0U);
  DpuHandshake later_host(Side::host, secret);
  EXPECT_TRUE(later_host.receive(said.dpu));
  EXPECT_FALSE(later_host.receive(said.dpu_proof));
  EXPECT_NE(later_host.awaited(), 0U);
}

TEST(DpuHandshake, SentBackIsRefused) {
  DpuHandshake host(Side::host, Secret{3});
  EXPECT_FALSE(host.receive(host.begin()));
  Bytes disguised = host.begin();
  disguised[12] = std::byte{2};  // of a DPU
  const auto proof = host.receive(disguised);
  ASSERT_TRUE(proof);
  EXPECT_FALSE(host.receive(proof.value())) << "its own proof";
}

TEST(DpuHandshake, ChecksEveryField) {
  const Bytes right = DpuHandshake(Side::host, Secret{3}).begin();
  ASSERT_EQ(right.size(), 48U);
  std::array<std::uint32_t, 4> fixed{};
  std::memcpy(fixed.data(), right.data(), sizeof(fixed));
  EXPECT_EQ(fixed, (std::array<std::uint32_t, 4>{0x4744524F, build_version(), 1, 1}));
  for (std::size_t at = 0; at < sizeof(fixed); ++at) {
    Bytes wrong = right;
    wrong[at] ^= std::byte{0x40};
    const auto heard = DpuHandshake(Side::dpu, Secret{3}).receive(wrong);
    ASSERT_FALSE(heard) << at;
    EXPECT_EQ(heard.error().find("version") != std::string::npos, at >= 4 && at < 8) << heard.error();
  }
  for (const std::size_t length : {0U, 1U, 47U}) {
    EXPECT_FALSE(DpuHandshake(Side::dpu, Secret{3}).receive(std::span(right).first(length)));
  }
}

// A change of any bit of any message makes the handshake fail.
TEST(DpuHandshake, ProvesEveryBitOfBothNonces) {
  for (std::size_t bit = 0; bit < 2 * 32 * 8; ++bit) {
    DpuHandshake host(Side::host, Secret{3});
    DpuHandshake dpu(Side::dpu, Secret{3});
    Bytes to_dpu = host.begin();
    Bytes to_host = dpu.begin();
    Bytes& changed = bit % 2 == 0 ? to_dpu : to_host;
    changed[16 + bit / 16] ^= static_cast<std::byte>(1U << (bit / 2 % 8));
    EXPECT_TRUE(dpu.receive(to_dpu));
    EXPECT_FALSE(dpu.receive(host.receive(to_host).value())) << bit;
  }
}

}  // namespace
}  // namespace outrigger::proof
