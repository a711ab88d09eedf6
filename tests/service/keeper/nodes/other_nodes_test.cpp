// Messages between keepers of different nodes over real local connections; the test controls time.
#include "service/keeper/nodes/other_nodes.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_memory.hpp"
#include "proof/hmac.hpp"

namespace outrigger::service {
namespace {

using Clock = OtherNodes::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::byte> an_address(int of) {
  return std::vector<std::byte>(100, static_cast<std::byte>(of));
}

// A keeper's part. Node i has two service processes and world rank i.
struct NearNode {
  NearNode(std::uint32_t nodes, std::uint32_t number, Events& events) : own_number(number), others(config, events) {
    config.nodes = nodes;
    config.world_size = nodes;
    config.local_size = 1;
  }
  KeeperConfig config;
  std::uint32_t own_number;
  OtherNodes others;
  KeeperPlace place;
  std::vector<ControlMessage> told;

  void work(Clock::time_point now) {
    others.work(now);
    for (OtherNodes::ForServices& news : others.take_news()) take(news);
  }
  void take(OtherNodes::ForServices& news) {
    std::vector<UniqueFd> fds;
    if (news.attached.valid()) fds.push_back(std::move(news.attached));
    auto message = decode_control(news.packet, std::move(fds));
    ASSERT_TRUE(message) << message.error();
    told.push_back(std::move(message).value());
  }
  // Moved peers that its service processes have been told of.
  [[nodiscard]] std::vector<std::string> moved() {
    std::vector<std::string> all;
    for (ControlMessage& message : told) {
      if (message.kind() != ControlKind::peer_moved) continue;
      const auto body = message.body<PeerMovedBody>();
      const auto bytes = read_shared_bytes(message.fds()[0].get(), body.bytes, kMaxWireAddressBytes);
      EXPECT_TRUE(bytes && bytes.value().size() == 100);
      all.push_back(std::to_string(body.sp) + " is in epoch " + std::to_string(body.epoch) + " at " +
                    std::to_string(std::to_integer<int>(bytes.value()[0])));
    }
    return all;
  }
  [[nodiscard]] std::vector<std::uint32_t> watched() const {
    std::vector<std::uint32_t> all;
    for (const ControlMessage& message : told) {
      if (message.kind() == ControlKind::peer_watched) all.push_back(message.body<PeerBody>().sp);
    }
    return all;
  }
};

class OtherNodesTest : public ::testing::Test {
 protected:
  void start(std::uint32_t nodes) {
    for (std::uint32_t i = 0; i < nodes; ++i) {
      all_.emplace_back(nodes, i, events_);
      all_.back().place = all_.back().others.listen();
      ASSERT_NE(all_.back().place.port, 0);
      ASSERT_FALSE(all_.back().place.addresses.empty());
    }
  }
  [[nodiscard]] std::vector<std::byte> job_map(std::uint8_t secret = 7) const {
    std::vector<std::byte> bytes;
    for (const NearNode& node : all_) {
      NodeDescriptor descriptor;
      descriptor.name = "n" + std::to_string(node.own_number);
      descriptor.secret.fill(secret);
      descriptor.addresses.assign(2, an_address(0));
      descriptor.ranks = {RankAssignment{WorldRank{node.own_number}, 0}};
      descriptor.keeper = node.place;
      encode_descriptor(descriptor, bytes);
    }
    return bytes;
  }
  void introduce(std::uint32_t node, std::uint8_t secret = 7) {
    const std::vector<std::byte> bytes = job_map(secret);
    all_[node].others.take_job_map(SharedBytesBody{bytes.size(), node, 0}, bytes);
  }
  void introduce_all() {
    for (std::uint32_t i = 0; i < all_.size(); ++i) introduce(i);
  }
  // True if something happened. Local messages arrive within a millisecond.
  bool work() {
    for (NearNode& node : all_) node.work(now_);
    return !events_.wait(1).empty();
  }
  // Advances the clock while nothing happens.
  bool run_until(const std::function<bool()>& done) {
    for (int idle = 0; idle < 20'000;) {
      const bool happens = work();
      if (done()) return true;
      if (happens) continue;
      ++idle;
      now_ += milliseconds(1);
    }
    return false;
  }
  // Until nothing happens any more, without advancing the clock.
  void settle() {
    while (work()) continue;
  }
  Clock::time_point now_ = Clock::now();
  Events events_{[this] { return now_; }};
  std::deque<NearNode> all_;
};

TEST_F(OtherNodesTest, AllNodesAreToldAndTellTheirReplacements) {
  start(3);
  introduce_all();
  EXPECT_TRUE(all_[0].others.can_be_notified());
  all_[1].others.moved(1, Epoch{2}, an_address(42));
  ASSERT_TRUE(run_until([&] { return !all_[0].moved().empty() && !all_[2].moved().empty(); }));
  settle();
  const std::vector<std::string> expected{"3 is in epoch 2 at 42"};
  EXPECT_EQ(all_[0].moved(), expected);
  EXPECT_EQ(all_[2].moved(), expected);
  EXPECT_TRUE(all_[1].moved().empty());
  for (NearNode& node : all_) EXPECT_FALSE(node.others.failure());
  // A service process that is started later on node 0 gets all of it, the job map first.
  all_[0].told.clear();
  for (OtherNodes::ForServices& news : all_[0].others.for_a_new_one()) all_[0].take(news);
  ASSERT_EQ(all_[0].told.size(), 2U);
  EXPECT_EQ(all_[0].told[0].kind(), ControlKind::job_map);
  const auto body = all_[0].told[0].body<SharedBytesBody>();
  const auto bytes = read_shared_bytes(all_[0].told[0].fds()[0].get(), body.bytes, kMaxJobMapBytes);
  ASSERT_TRUE(bytes) << bytes.error();
  EXPECT_EQ(bytes.value(), job_map());
  EXPECT_EQ(all_[0].moved(), expected);
}

TEST_F(OtherNodesTest, OnlyTheNewestOfSeveralReplacementsCounts) {
  start(2);
  introduce_all();
  all_[0].others.moved(0, Epoch{2}, an_address(1));
  all_[0].others.moved(1, Epoch{2}, an_address(2));
  all_[1].others.moved(0, Epoch{2}, an_address(3));
  ASSERT_TRUE(run_until([&] { return all_[1].moved().size() == 2 && all_[0].moved().size() == 1; }));
  all_[0].others.moved(1, Epoch{3}, an_address(4));
  all_[0].others.moved(1, Epoch{4}, an_address(5));
  ASSERT_TRUE(run_until([&] { return all_[1].moved().size() >= 3; }));
  settle();
  EXPECT_EQ(all_[1].moved().back(), "1 is in epoch 4 at 5");
  EXPECT_EQ(all_[0].moved(), std::vector<std::string>{"2 is in epoch 2 at 3"});
  all_[1].told.clear();
  for (OtherNodes::ForServices& news : all_[1].others.for_a_new_one()) all_[1].take(news);
  EXPECT_EQ(all_[1].moved(), (std::vector<std::string>{"0 is in epoch 2 at 1", "1 is in epoch 4 at 5"}));
}

TEST_F(OtherNodesTest, NodeWithoutJobMapIsToldLater) {
  start(2);
  all_[0].others.moved(0, Epoch{2}, an_address(9));  // node 0 does not know the others yet
  EXPECT_TRUE(all_[0].others.can_be_notified());
  introduce(0);
  settle();
  EXPECT_TRUE(all_[1].moved().empty());  // and node 1 does not know node 0
  introduce(1);
  ASSERT_TRUE(run_until([&] { return !all_[1].moved().empty(); }));
}

TEST_F(OtherNodesTest, NodeAnswersAQuestion) {
  start(3);
  introduce_all();
  for (int i = 0; i < 3; ++i) {
    all_[0].others.ask(SpId{5}, now_);
    ASSERT_TRUE(run_until([&] { return all_[0].watched().size() == static_cast<std::size_t>(i + 1); }));
  }
  EXPECT_EQ(all_[0].watched().back(), 5U);
  all_[0].others.ask(SpId{0}, now_);  // its own
  all_[0].others.ask(SpId{6}, now_);  // out of range
  settle();
  EXPECT_EQ(all_[0].watched().size(), 3U);
}

TEST_F(OtherNodesTest, UnreachableAddressIsFollowedByTheNext) {
  start(2);
  const KeeperPlace::Address nowhere{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 77};
  UniqueFd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // accepts connections and sends nothing
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(all_[1].place.port);
  ::inet_pton(AF_INET, "127.0.0.78", &place.sin_addr);
  (void)::bind(silent.get(), reinterpret_cast<sockaddr*>(&place), sizeof(place));
  all_[1].place.addresses.insert(all_[1].place.addresses.begin(), 2, nowhere);
  introduce_all();
  all_[0].others.moved(0, Epoch{2}, an_address(1));
  ASSERT_TRUE(run_until([&] { return !all_[1].moved().empty(); }));
}

TEST_F(OtherNodesTest, UnreachableNodeEndsTheJobAfterATimeout) {
  start(2);
  introduce_all();
  all_[1].others.close();  // it has ended
  all_[0].others.lost(1, "service process 1 (pid 5) on node n0 was killed");
  all_[0].others.moved(1, Epoch{2}, an_address(1));
  all_[0].others.ask(SpId{2}, now_);
  settle();
  EXPECT_FALSE(all_[0].others.failure());
  EXPECT_TRUE(all_[0].watched().empty());
  now_ += seconds(16);
  settle();
  ASSERT_TRUE(all_[0].others.failure());
  EXPECT_EQ(*all_[0].others.failure(),
            "service process 1 (pid 5) on node n0 was killed; node n1 could not be told of its replacement");
}

TEST_F(OtherNodesTest, CountsReachTheNodeOfRank0WhenBothHaveEnded) {
  start(3);
  introduce_all();
  for (NearNode& node : all_) node.others.close();
  const std::vector<std::byte> large(kMaxCountsBytes, std::byte{9});
  all_[1].others.send_counts(large, now_);
  all_[2].others.send_counts(an_address(4), now_);
  EXPECT_FALSE(all_[2].others.counts_are_sent());
  ASSERT_TRUE(run_until([&] { return all_[1].others.counts_are_sent() && all_[2].others.counts_are_sent(); }));
  EXPECT_EQ(all_[0].others.others(), 2U);
  ASSERT_EQ(all_[0].others.counts().size(), 2U);
  EXPECT_EQ(all_[0].others.counts().at(1), large);
  EXPECT_EQ(all_[0].others.counts().at(2), an_address(4));
  EXPECT_TRUE(all_[1].others.counts().empty() && all_[2].others.counts().empty());
  // It is the only node.
  all_[0].others.send_counts(an_address(5), now_);
  EXPECT_TRUE(all_[0].others.counts_are_sent());
  all_[1].others.send_counts(std::vector<std::byte>(kMaxCountsBytes + 1), now_);
  EXPECT_TRUE(all_[1].others.counts_are_sent());
}

TEST_F(OtherNodesTest, CountsAreDroppedWithoutAReceiver) {
  start(2);
  introduce(1);  // node 1 has no job map, and therefore no secret
  all_[1].others.send_counts(an_address(4), now_);
  settle();
  EXPECT_FALSE(all_[1].others.counts_are_sent());
  now_ += seconds(3);
  settle();
  EXPECT_TRUE(all_[1].others.counts_are_sent());
  EXPECT_FALSE(all_[1].others.failure());
}

TEST_F(OtherNodesTest, NoReplacementsIfANodeHasNoPort) {
  start(2);
  all_[1].place = {};
  introduce_all();
  EXPECT_FALSE(all_[0].others.can_be_notified());
  EXPECT_TRUE(all_[1].others.can_be_notified());
}

TEST_F(OtherNodesTest, StrangersAreIgnored) {
  start(3);
  introduce(0);
  introduce(1, 8);  // another job's secret, at the same ports
  introduce(2);
  all_[1].others.moved(0, Epoch{2}, an_address(66));
  all_[0].others.ask(SpId{2}, now_);
  // A client that only connects, one that sends garbage, and one that sends a well-formed handshake.
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(all_[0].place.port);
    ::inet_pton(AF_INET, "127.0.0.1", &place.sin_addr);
    ASSERT_EQ(::connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&place), sizeof(place)), 0);
  }
  const std::string nonsense(4000, 'x');
  ASSERT_GT(::send(strangers[1].get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 0);
  std::vector<std::byte> said = proof::DpuHandshake(proof::DpuHandshake::Side::host, Secret{}).begin();
  said.resize(said.size() + sizeof(proof::Mac));
  append(said, NodeNews{NodeNewsKind::moved, 0, SpId{2}, Epoch{2}, an_address(67)});
  ASSERT_GT(::send(strangers[2].get(), said.data(), said.size(), MSG_NOSIGNAL), 0);
  settle();
  now_ += seconds(6);  // closes the silent one, too
  settle();
  for (const UniqueFd& stranger : strangers) {
    std::array<char, 512> heard{};
    ssize_t got = 0;
    ssize_t all = 0;
    while ((got = ::recv(stranger.get(), heard.data(), heard.size(), MSG_DONTWAIT)) > 0) all += got;
    EXPECT_FALSE(got < 0 && errno == EAGAIN) << "it is still connected";
    EXPECT_LE(all, 48) << "it has been answered, and told nothing";
  }
  for (const std::uint32_t node : {0U, 2U}) EXPECT_TRUE(all_[node].moved().empty());
  EXPECT_TRUE(all_[0].watched().empty());
  // Nodes of the job still reach each other.
  all_[2].others.moved(0, Epoch{2}, an_address(1));
  EXPECT_TRUE(run_until([&] { return !all_[0].moved().empty(); }));
}

// From the job, but at the wrong node, e.g. if two hosts have the same address in some internal network.
TEST_F(OtherNodesTest, MessagesForAnotherNodeAreIgnored) {
  start(3);
  std::swap(all_[1].place, all_[2].place);
  introduce_all();
  all_[0].others.moved(0, Epoch{2}, an_address(1));
  all_[0].others.ask(SpId{2}, now_);
  settle();
  EXPECT_TRUE(all_[1].moved().empty() && all_[2].moved().empty());
  EXPECT_TRUE(all_[0].watched().empty());
}

}  // namespace
}  // namespace outrigger::service
