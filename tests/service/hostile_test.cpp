// Ranks that send nonsense: it costs them their connection, the others are served.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <functional>
#include <random>

#include "node.hpp"

namespace outrigger::testing {
namespace {

// A rank that speaks the control protocol by hand.
class RawRank {
 public:
  explicit RawRank(const Node& node) : socket_(connect_to(node.name())) {}

  static HelloBody hello(const Node& node, std::uint32_t rank, std::uint32_t size) {
    HelloBody hello;
    hello.secret = node.address().secret;
    hello.world_rank = hello.local_rank = rank;
    hello.world_size = hello.local_size = size;
    return hello;
  }
  [[nodiscard]] ControlSocket& socket() { return socket_; }
  // The reason of a refusal, or what came instead.
  std::string refusal() {
    ControlSocket::Received received = socket_.receive(5000);
    if (received.event == ControlSocket::Event::closed) return "closed";
    if (received.event != ControlSocket::Event::message) return "nothing";
    if (received.message->kind() != ControlKind::refused) return "another message";
    return received.message->body<RefusedBody>().reason.data();
  }

 private:
  ControlSocket socket_;
};

NodeOptions two_ranks() {
  NodeOptions options;
  options.ranks = 2;
  return options;
}

void expect_served(Node& node) {
  auto clients = node.attach_all();
  for (const auto& client : clients) EXPECT_TRUE(client) << client.error();
}

TEST(HostileHello, IsRefusedWithAReason) {
  Node node(two_ranks());
  const auto refused = [&](const std::function<void(HelloBody&)>& spoil, const std::string& reason) {
    RawRank rank(node);
    HelloBody hello = RawRank::hello(node, 0, 2);
    spoil(hello);
    ASSERT_TRUE(rank.socket().send(ControlKind::hello, hello));
    EXPECT_NE(rank.refusal().find(reason), std::string::npos) << reason;
  };
  refused([](HelloBody& h) { h.secret[3] ^= 1; }, "wrong secret");
  refused([](HelloBody& h) { h.world_rank = 2; }, "out of range");
  refused([](HelloBody& h) { h.local_rank = 0xFFFFFFFF; }, "out of range");
  refused([](HelloBody& h) { h.world_size = h.local_size = 3; }, "has 2 ranks");
  refused([](HelloBody& h) { h.world_size = 100; }, "several nodes");
  expect_served(node);
}

TEST(HostileHello, DuplicatesAreRefused) {
  Node node(two_ranks());
  RawRank first(node);
  ASSERT_TRUE(first.socket().send(ControlKind::hello, RawRank::hello(node, 0, 2)));
  RawRank second(node);
  HelloBody again = RawRank::hello(node, 0, 2);
  ASSERT_TRUE(second.socket().send(ControlKind::hello, again));
  EXPECT_NE(second.refusal().find("is here already"), std::string::npos);
}

TEST(HostileHello, GarbageCostsTheConnectionOnly) {
  Node node(two_ranks());
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    RawRank rank(node);
    std::vector<std::byte> packet = encode_control(ControlKind::hello, RawRank::hello(node, 0, 2));
    if (round % 3 == 0) packet.resize(1 + random() % 1500);
    for (std::uint64_t spoils = 1 + random() % 8; spoils > 0; --spoils) {
      packet[random() % std::min<std::size_t>(packet.size(), 40)] = static_cast<std::byte>(random());
    }
    if (packet == encode_control(ControlKind::hello, RawRank::hello(node, 0, 2))) continue;
    ASSERT_TRUE(rank.socket().send_packet(packet, {}));
    const std::string answer = rank.refusal();
    ASSERT_NE(answer, "nothing");
    ASSERT_NE(answer, "another message");
  }
  expect_served(node);
}

// Attached by hand, with what the keeper sent.
struct Attached {
  explicit Attached(Node& node) : rank(node) {
    if (!rank.socket().send(ControlKind::hello, RawRank::hello(node, 1, 2))) std::abort();
    std::thread other([&] { client = std::move(client::Client::attach(node.attach_options(0))).value(); });
    ControlSocket::Received received = rank.socket().receive(10000);
    other.join();
    if (received.event != ControlSocket::Event::message || received.message->kind() != ControlKind::welcome)
      std::abort();
    segment = std::move(fabric::Mapping::map(received.message->fds()[0].get(), SegmentView::segment_bytes())).value();
    doorbell = std::move(received.message->fds()[1]);
  }
  // Posts to the ring and wakes the service process.
  void put_in_ring(std::uint32_t entry) {
    const SegmentView view(segment.base());
    const std::uint32_t tail = view.header().ring_tail.load();
    view.ring_entry(tail).store(entry);
    view.header().ring_tail.store(tail + 1);
    ring();
  }
  void ring() const {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(doorbell.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }
  // The good rank is served as before: a group of its own.
  void expect_other_served() const {
    const auto group = client->define_group(GroupId{4, 4}, {WorldRank{0}}, GroupRank{0});
    std::vector<std::byte> send(100, std::byte{7});
    std::vector<std::byte> receive(100);
    client::OperationRequest request;
    request.group = group;
    request.send.base = send.data();
    request.receive.base = receive.data();
    request.send.block_bytes = request.receive.block_bytes = 100;
    const auto operation = client->post(request);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!client->poll(*operation)) {
      ASSERT_FALSE(client->fatal()) << *client->fatal();
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    EXPECT_EQ(client->result(*operation).status, CompletionStatus::ok);
    EXPECT_EQ(receive, send);
  }

  RawRank rank;
  std::unique_ptr<client::Client> client;
  fabric::Mapping segment;
  UniqueFd doorbell;
};

TEST(HostileRank, MessagesThatAreNotForItToSend) {
  for (const ControlKind kind : {ControlKind::rank_left, ControlKind::goodbye}) {
    Node node(two_ranks());
    Attached attached(node);
    ASSERT_TRUE(attached.rank.socket().send(kind, RankBody{0, 0}));
    const std::string answer = attached.rank.refusal();
    EXPECT_TRUE(kind == ControlKind::goodbye ? answer == "closed" : answer.find("do not send") != std::string::npos)
        << answer;
    attached.expect_other_served();
  }
}

TEST(HostileRank, UnsealedRegionIsNotAccepted) {
  Node node(two_ranks());
  Attached attached(node);
  const UniqueFd fd(::memfd_create("outrigger-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 8192), 0);
  const int raw = fd.get();
  ASSERT_TRUE(
      attached.rank.socket().send(ControlKind::region_add, RegionBody{0, 2, 0x10000, 8192}, std::span(&raw, 1)));
  ControlSocket::Received received = attached.rank.socket().receive(5000);
  ASSERT_EQ(received.event, ControlSocket::Event::message);
  ASSERT_EQ(received.message->kind(), ControlKind::region_added);
  EXPECT_EQ(received.message->body<RegionAddedBody>().ok, 0U);
  // An id that is reserved or not new is nonsense.
  ASSERT_TRUE(
      attached.rank.socket().send(ControlKind::region_add, RegionBody{0, 2, 0x10000, 8192}, std::span(&raw, 1)));
  EXPECT_NE(attached.rank.refusal().find("not new"), std::string::npos);
  attached.expect_other_served();
}

TEST(HostileRank, RingEntriesAndTailsOutOfRangeCostTheRank) {
  for (int attack = 0; attack < 3; ++attack) {
    Node node(two_ranks());
    Attached attached(node);
    const SegmentView view(attached.segment.base());
    if (attack == 0) attached.put_in_ring(kSlotCount);
    if (attack == 1) {
      view.header().ring_tail.store(0x80000000);
      attached.ring();
    }
    if (attack == 2) attached.put_in_ring(0xFFFFFFFF);
    const std::string answer = attached.rank.refusal();
    EXPECT_NE(answer.find("slot"), std::string::npos) << answer;
    attached.expect_other_served();
  }
}

TEST(HostileRank, MalformedSlotIsRejectedAndTheRankServedOn) {
  Node node(two_ranks());
  Attached attached(node);
  const SegmentView view(attached.segment.base());
  OperationSlot& slot = view.slot(SlotIndex{0});
  for (int i = 0; i < 3; ++i) {
    std::memset(static_cast<void*>(&slot.body), 0xA5 + i, sizeof(slot.body));
    slot.state.store(static_cast<std::uint32_t>(SlotState::posted));
    attached.put_in_ring(0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (slot.state.load(std::memory_order_acquire) != static_cast<std::uint32_t>(SlotState::done)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    EXPECT_EQ(slot.result.status, static_cast<std::uint32_t>(CompletionStatus::rejected));
  }
  attached.expect_other_served();
}

TEST(Starting, CpuThatDoesNotExistIsRefusedWithAReason) {
  NodeOptions options;
  options.ranks = 1;
  options.service_cpus = {1023};
  Node node(options);
  const auto client = client::Client::attach(node.attach_options(0));
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().find("cpu 1023"), std::string::npos) << client.error();
}

TEST(Starting, ServiceProcessThatCannotStartIsRefusedWithAReason) {
  const std::string name = fresh_socket_name();
  service::ProcessStarter starter("/nonexistent/outriggerd");
  service::KeeperConfig config;
  config.world_size = config.local_size = 1;
  service::Keeper keeper(config, listen_on(name), starter);
  std::thread thread([&] { EXPECT_EQ(keeper.run(), 1); });
  client::AttachOptions attach;
  std::memcpy(attach.keeper.name.data(), name.data(), name.size());
  attach.world_size = attach.local_size = 1;
  const auto client = client::Client::attach(attach);
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().find("could not be started"), std::string::npos) << client.error();
  thread.join();
}

}  // namespace
}  // namespace outrigger::testing
