// Peers that have not proven that they belong to the job, and replays of recorded handshakes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "raw_peers.hpp"

namespace outrigger::testing {
namespace {

using fabric::ucx::WireOptions;
using proof::HandshakeMessage;
using proof::Step;
using Channel = RawPeer::Channel;
using Texts = std::vector<std::string>;

class WireHandshakes : public RawPeers {
 protected:
  void SetUp() override { start_unknown({}); }
  Texts heard() {
    run_a_while();
    Texts texts;
    for (auto& [from, text] : messages(0)) texts.push_back(std::move(text));
    return texts;
  }
  [[nodiscard]] std::size_t count(Step step) const {
    return static_cast<std::size_t>(std::ranges::count(raw_->handshakes, step, &HandshakeMessage::step));
  }
};

TEST_P(WireHandshakes, NothingIsSentBeforeTheHandshake) {
  Moved pushed;
  Moved pulled;
  fill(memory(0).range(kPrivateRegion), 9);
  send(0, 1, "first");
  wire(0).push(SpId{1}, block(0, kPrivateRegion, 0, 300'000), block(1, kPrivateRegion, 0, 300'000), pushed);
  wire(0).pull(SpId{1}, block(1, kPrivateRegion, 0, 10), block(0, kPrivateRegion, 0, 10), pulled);
  send(0, 1, "second");
  for (int turn = 0; turn < 3; ++turn) {
    run_a_while();
    wire(0).tick(true);
  }
  EXPECT_TRUE(raw_->headers.empty());
  EXPECT_GE(count(Step::call), 3U) << "it calls again";
  EXPECT_EQ(count(Step::call), raw_->handshakes.size());
  EXPECT_FALSE(wire(0).all_sent());
  shake_hands();
  ASSERT_TRUE(run([&] { return raw_->count(wire::Kind::message) == 2 && raw_->count(wire::Kind::push) >= 1; }));
  EXPECT_EQ(raw_->count(wire::Kind::request), 1U);
  for (const wire::Token& token : raw_->tokens) EXPECT_EQ(token, handshake_.token_in());
  wire(0).cancel(pushed);
  wire(0).cancel(pulled);
}

TEST_P(WireHandshakes, DataBeforeTheHandshakeChangesNothing) {
  const std::vector<std::byte> some(5000, std::byte{1});
  wire::Header push = header(wire::Kind::push);
  push.bytes = some.size();
  push.memory = block(0, kPrivateRegion, 0, some.size()).memory;
  raw_->send(Channel::data, shown(push), some);
  push.memory.region = FakeMemory::kMapped;
  raw_->send(Channel::data, shown(push), some, true);
  say_message(0, "too early");
  say(header(wire::Kind::bye));
  EXPECT_EQ(heard(), Texts{});
  EXPECT_EQ(memory(0).range(kPrivateRegion)[0], std::byte{0});
  EXPECT_EQ(memory(0).range(FakeMemory::kMapped)[0], std::byte{0});
  EXPECT_TRUE(raw_->headers.empty());
  shake_hands();
  EXPECT_EQ(heard_until("in time", 0), Texts{"in time"});
}

TEST_P(WireHandshakes, PeersWithoutTheSecretAreIgnored) {
  job_.key[5] ^= 1;
  answers_handshakes_ = true;
  send(0, 1, "x");
  send_handshake(handshake_.call().value());
  const auto failure = failure_within(7);
  EXPECT_FALSE(handshake_.knows_peer());
  EXPECT_TRUE(raw_->headers.empty());
  ASSERT_TRUE(failure);
  EXPECT_EQ(*failure, "node n1 is lost: service process 1 there does not prove that it belongs to this job");
}

TEST_P(WireHandshakes, ARecordedHandshakeIsRefused) {
  shake_hands();
  EXPECT_EQ(heard_until("recorded", 0), Texts{"recorded"});
  const auto said = said_;
  const auto message = shown(header(wire::Kind::message));
  const auto text = std::as_bytes(std::span("again", 5));
  start_unknown({});  // the same job and the same two, another day
  for (const auto& handshake : said) raw_->send(Channel::control, handshake);
  raw_->send(Channel::control, message, text);
  EXPECT_EQ(heard(), Texts{});
  EXPECT_EQ(count(Step::answer), 1U) << "of the call; nothing else is answered";
  EXPECT_EQ(raw_->handshakes.size(), 1U);
  shake_hands();
  raw_->send(Channel::control, message, text);
  EXPECT_EQ(heard(), Texts{}) << "the token of another handshake";
  EXPECT_EQ(heard_until("mine", 0), Texts{"mine"});
  // In the middle of it, too.
  for (const auto& handshake : said) raw_->send(Channel::control, handshake);
  for (const auto& handshake : said_) raw_->send(Channel::control, handshake);
  EXPECT_EQ(heard_until("still mine", 1), Texts{"still mine"});
  send(0, 1, "yours");
  EXPECT_TRUE(run([&] { return raw_->count(wire::Kind::message) == 1; }));
  EXPECT_FALSE(wire(0).failure());
}

TEST_P(WireHandshakes, AHandshakeSentBackToItsSenderIsRefused) {
  send(0, 1, "for the one that knows the secret");
  for (int turn = 0; turn < 3; ++turn) {
    run_a_while();
    while (!raw_->handshakes.empty()) {
      HandshakeMessage mirrored = raw_->handshakes.front();
      raw_->handshakes.pop_front();
      raw_->send(Channel::control, encoded(mirrored));
      std::swap(mirrored.from, mirrored.to);
      raw_->send(Channel::control, encoded(mirrored));
      std::swap(mirrored.mine, mirrored.yours);
      raw_->send(Channel::control, encoded(mirrored));
    }
  }
  EXPECT_TRUE(raw_->headers.empty());
  EXPECT_FALSE(wire(0).failure());
  shake_hands();
  EXPECT_TRUE(run([&] { return raw_->count(wire::Kind::message) == 1; }));
}

TEST_P(WireHandshakes, StrangersCallsAreAnsweredToThePeerAndNotOften) {
  HandshakeMessage call = handshake_.call().value();
  for (int i = 0; i < 1000; ++i) {
    call.mine = proof::fresh_nonce();
    raw_->send(Channel::control, encoded(call));
  }
  run_a_while();
  EXPECT_EQ(raw_->handshakes.size(), static_cast<std::size_t>(proof::Handshake::kAnswersAtOnce));
  raw_->handshakes.clear();
  wire(0).tick(false);
  shake_hands();
  for (int i = 0; i < 1000; ++i) {
    call.mine = proof::fresh_nonce();
    raw_->send(Channel::control, encoded(call));
  }
  EXPECT_EQ(heard_until("undisturbed", 0), Texts{"undisturbed"});
  EXPECT_TRUE(raw_->handshakes.empty()) << "calls of others than the one that is known";
}

TEST_P(WireHandshakes, StrangersCallsMakeNobodyALoss) {
  const HandshakeMessage call = handshake_.call().value();
  RawPeer stranger;
  stranger.connect(addresses_[0]);
  raw_.reset();  // as a peer that has left, without a word to this one
  for (int turn = 0; turn < 12; ++turn) {
    stranger.send(Channel::control, encoded(call));
    run_for(std::chrono::milliseconds(20));
    stranger.progress();
    wire(0).tick(true);
  }
  EXPECT_FALSE(wire(0).failure()) << wire(0).failure()->reason;
  EXPECT_TRUE(stranger.handshakes.empty()) << "answers go to where the job map says";
}

TEST_P(WireHandshakes, GarbageIsNoHandshake) {
  std::mt19937_64 random(5);
  const auto good = encoded(handshake_.call().value());
  for (int i = 0; i < 500; ++i) {
    auto spoiled = good;
    spoiled[4 + random() % (good.size() - 4)] ^= static_cast<std::byte>(1 + random() % 255);
    spoiled[8] = std::byte{static_cast<std::uint8_t>(2 + i % 3)};  // claims to be proven, or is none
    std::span<const std::byte> sent(spoiled);
    if (i % 4 == 0) sent = sent.first(4 + random() % (good.size() - 4));
    raw_->send(i % 3 == 0 ? Channel::data : Channel::control, sent);
  }
  raw_->send(Channel::data, good);                                // not the channel for it
  raw_->send(Channel::control, good, std::vector<std::byte>(1));  // with something behind it
  raw_->send(Channel::control, good, std::vector<std::byte>(100'000), true);
  run_a_while();
  EXPECT_TRUE(raw_->handshakes.empty());
  shake_hands();
  EXPECT_EQ(heard_until("well", 0), Texts{"well"});
}

TEST_P(Wires, BothMayCallAtOnce) {
  start(2);
  for (int i = 0; i < 10; ++i) {
    send(0, 1, std::to_string(i));
    send(1, 0, std::to_string(i));
  }
  std::array<std::vector<std::pair<SpId, std::string>>, 2> came;
  ASSERT_TRUE(run_until([&] {
    for (std::size_t i = 0; i < 2; ++i) {
      for (auto& message : messages(i)) came[i].push_back(std::move(message));
    }
    return came[0].size() == 10 && came[1].size() == 10;
  }));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(came[0][static_cast<std::size_t>(i)].second, std::to_string(i));
    EXPECT_EQ(came[1][static_cast<std::size_t>(i)].second, std::to_string(i));
  }
  expect_works(0, 1);
}

TEST_P(Wires, ServiceProcessesOfAnotherJobGetNothing) {
  open(2);
  const JobMap job_map = make_job_map();
  JobMap other = job_map;
  other.nodes.front().secret[0] ^= 1;
  ASSERT_TRUE(wire(0).introduce(job_map, SpId{0}));
  ASSERT_TRUE(wire(1).introduce(other, SpId{1}));
  send(0, 1, "a");
  send(1, 0, "b");
  for (int turn = 0; turn < 8; ++turn) {
    run_for(std::chrono::milliseconds(20));
    for (std::size_t i = 0; i < 2; ++i) {
      wire(i).tick(true);
      EXPECT_TRUE(messages(i).empty());
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(wire(i).failure());
    EXPECT_NE(wire(i).failure()->reason.find("does not prove"), std::string::npos) << wire(i).failure()->reason;
  }
}

// A peer whose own connection has failed and is not closed yet: UCX then answers no new connection.
class Unanswered : public RawPeers {
 protected:
  void SetUp() override { start_unknown({}); }
  // An address without a listener.
  [[nodiscard]] std::vector<std::byte> called() const override {
    std::vector<std::byte> address = addresses_[0];
    for (const std::uint16_t port : listening_ports()) {
      const std::array<std::byte, 2> here{std::byte(port >> 8), std::byte(port & 0xFF)};
      for (auto at = address.begin(); at != address.end();) {
        at = std::search(at, address.end(), here.begin(), here.end());
        if (at != address.end()) at = std::fill_n(at, 2, std::byte{0});
      }
    }
    return address;
  }

 private:
  static std::vector<std::uint16_t> listening_ports() {
    std::vector<std::uint16_t> ports;
    for (int fd = 3; fd < 1024; ++fd) {
      int listens = 0;
      socklen_t bytes = sizeof(listens);
      if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
      sockaddr_in name{};
      bytes = sizeof(name);
      if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) == 0) ports.push_back(ntohs(name.sin_port));
    }
    return ports;
  }
};

TEST_P(Unanswered, CallersConnectAnew) {
  ASSERT_TRUE(run([&] { return raw_->broken(); }));
  send(0, 1, "first");
  for (int turn = 0; turn < 8; ++turn) {
    run_a_while();
    wire(0).replacements().expect(SpId{1}, Epoch{1});  // its node is there
    wire(0).tick(true);
  }
  EXPECT_GE(raw_->handshakes.size(), 1U);
  raw_->connect(addresses_[0]);
  shake_hands();
  ASSERT_TRUE(run([&] { return raw_->count(wire::Kind::message) == 1; }));
  EXPECT_EQ(wire(0).failure(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Networks, WireHandshakes, kNetworks, network_name);
INSTANTIATE_TEST_SUITE_P(Networks, Unanswered, kNetworks, network_name);

}  // namespace
}  // namespace outrigger::testing
