// Ranks that send malformed messages lose their connection; the others are still served.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <random>

#include "protocol/shared/segment.hpp"
#include "service/node.hpp"

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
  // The reason of a refusal, or a description of another message.
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
  refused([](HelloBody& h) { h.world_size = 100; }, "has 2 ranks");
  expect_served(node);
}

TEST(HostileHello, DuplicatesAreRefused) {
  Node node(two_ranks());
  RawRank first(node);
  ASSERT_TRUE(first.socket().send(ControlKind::hello, RawRank::hello(node, 0, 2)));
  RawRank second(node);
  HelloBody again = RawRank::hello(node, 0, 2);
  ASSERT_TRUE(second.socket().send(ControlKind::hello, again));
  EXPECT_NE(second.refusal().find("has already connected"), std::string::npos);
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

// A rank attached by hand with the keeper's messages.
struct Attached {
  explicit Attached(Node& node) : rank(node) {
    if (!rank.socket().send(ControlKind::hello, RawRank::hello(node, 1, 2))) std::abort();
    std::thread other([&] { client = std::move(client::attach(node.attach_options(0))).value(); });
    ControlSocket::Received received = rank.socket().receive(10000);
    other.join();
    if (received.event != ControlSocket::Event::message || received.message->kind() != ControlKind::welcome)
      std::abort();
    segment = std::move(Mapping::map(received.message->fds()[0].get(), SegmentView::segment_bytes())).value();
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
  // The good rank is still served, in a group of its own.
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
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!client->poll(*operation)) {
      ASSERT_FALSE(client->fatal()) << *client->fatal();
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    EXPECT_EQ(operation->result.status, CompletionStatus::ok);
    EXPECT_EQ(receive, send);
  }

  RawRank rank;
  client::AttachedEndpoint client;
  Mapping segment;
  UniqueFd doorbell;
};

TEST(HostileRank, UnexpectedMessagesAreRefused) {
  for (const ControlKind kind : {ControlKind::rank_left, ControlKind::goodbye}) {
    Node node(two_ranks());
    Attached attached(node);
    ASSERT_TRUE(attached.rank.socket().send(kind, RankBody{0, 0}));
    const std::string answer = attached.rank.refusal();
    EXPECT_TRUE(kind == ControlKind::goodbye ? answer == "closed" : answer.find("unexpected kind") != std::string::npos)
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
  // The id is reserved or not new.
  ASSERT_TRUE(
      attached.rank.socket().send(ControlKind::region_add, RegionBody{0, 2, 0x10000, 8192}, std::span(&raw, 1)));
  EXPECT_NE(attached.rank.refusal().find("not new"), std::string::npos);
  attached.expect_other_served();
}

TEST(HostileRank, MemoryWithoutCountsIsNotAccepted) {
  Node node(two_ranks());
  Attached attached(node);
  const UniqueFd fd(::memfd_create("outrigger-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int raw = fd.get();
  ASSERT_TRUE(attached.rank.socket().send(ControlKind::counts, RankBody{0, 0}, std::span(&raw, 1)));
  EXPECT_NE(attached.rank.refusal(), "nothing");
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

TEST(HostileRank, MalformedSlotIsRejectedAndTheRankStillServed) {
  Node node(two_ranks());
  Attached attached(node);
  const SegmentView view(attached.segment.base());
  OperationSlot& slot = view.slot(SlotIndex{0});
  for (int i = 0; i < 3; ++i) {
    std::memset(static_cast<void*>(&slot.body), 0xA5 + i, sizeof(slot.body));
    slot.state.store(static_cast<std::uint32_t>(SlotState::posted));
    attached.put_in_ring(0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (slot.state.load(std::memory_order_acquire) != static_cast<std::uint32_t>(SlotState::done)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    EXPECT_EQ(slot.result.status, static_cast<std::uint32_t>(CompletionStatus::rejected));
  }
  attached.expect_other_served();
}

// A slot of rank 1 in the group of both, at sequence `sequence`.
SlotRequestBody slot_of_both(const Attached& attached, std::uint64_t sequence) {
  const SegmentView view(attached.segment.base());
  view.header().rank_base_address.store(reinterpret_cast<std::uintptr_t>(view.base()));
  const auto address = reinterpret_cast<std::uintptr_t>(view.arena());
  auto* members = reinterpret_cast<std::uint32_t*>(view.arena());
  members[0] = 0;
  members[1] = 1;
  SlotRequestBody body;
  body.request = static_cast<std::uint16_t>(SlotRequest::operation);
  body.collective = static_cast<std::uint16_t>(Collective::ialltoall);
  body.algorithm = static_cast<std::uint16_t>(Algorithm::ring_pull);
  body.group_high = body.group_low = 9;
  body.sequence = sequence;
  body.digest = operation_digest(Collective::ialltoall, Algorithm::ring_pull, 0, 2, 0);
  body.group_size = 2;
  body.group_rank = 1;
  body.members = LocalRef{kArenaRegion.value(), 0, address};
  body.marks = LocalRef{kArenaRegion.value(), 0, address + 4096};
  return body;
}

TEST(HostileRank, MalformedOverflowRecordsCostTheRank) {
  enum class Attack { no_record, outside, unaligned, cycle, out_of_order, next_outside, others };
  for (const Attack attack : {Attack::no_record, Attack::outside, Attack::unaligned, Attack::cycle,
                              Attack::out_of_order, Attack::next_outside, Attack::others}) {
    Node node(two_ranks());
    Attached attached(node);
    const SegmentView view(attached.segment.base());
    SegmentHeader& header = view.header();
    SlotRequestBody body = slot_of_both(attached, 0);
    const auto arena = reinterpret_cast<std::uintptr_t>(view.arena());
    auto* record = reinterpret_cast<OverflowRecord*>(view.arena() + 8192);
    record->operation.body = body;
    LocalRef first{kArenaRegion.value(), 0, arena + 8192};
    record->next = first;
    if (attack == Attack::no_record) first = LocalRef{};
    if (attack == Attack::outside) first.address = arena + kArenaBytes - sizeof(OverflowRecord) + 64;
    if (attack == Attack::unaligned) first.address += 8;
    if (attack == Attack::out_of_order) record->number = 7;
    if (attack == Attack::next_outside) record->next.address = 4096;
    if (attack == Attack::others) record->next = LocalRef{77, 0, arena};
    header.overflow_first_region.store(first.region);
    header.overflow_first_address.store(first.address);
    header.overflow_tail.store(2);
    attached.ring();
    const std::string answer = attached.rank.refusal();
    EXPECT_NE(answer.find("overflow record"), std::string::npos) << static_cast<int>(attack) << ": " << answer;
    attached.expect_other_served();
  }
}

TEST(HostileRank, RejectedSlotDoesNotHangItsGroup) {
  NodeOptions options = two_ranks();
  for (const std::uint32_t services : {1U, 2U}) {
    options.services = services;
    Node node(options);
    Attached attached(node);
    SlotRequestBody body = slot_of_both(attached, 0);
    body.send = SlotLayout{LocalRef{kArenaRegion.value(), 0, 4096}, 100, 100, {}};  // not in the arena
    SegmentView(attached.segment.base()).slot(SlotIndex{0}).body = body;
    attached.put_in_ring(0);

    const auto group = attached.client->define_group(GroupId{9, 9}, {WorldRank{0}, WorldRank{1}}, GroupRank{0});
    std::array<std::byte, 200> send{};
    std::array<std::byte, 200> receive{};
    client::OperationRequest request;
    request.group = group;
    request.send.base = send.data();
    request.receive.base = receive.data();
    request.send.block_bytes = request.receive.block_bytes = 100;
    request.send.stride_bytes = request.receive.stride_bytes = 100;
    const auto operation = attached.client->post(request);
    ASSERT_NE(operation, nullptr);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!attached.client->poll(*operation)) ASSERT_LT(std::chrono::steady_clock::now(), deadline) << services;
    EXPECT_EQ(operation->result.status, CompletionStatus::rejected);
    attached.expect_other_served();
  }
}

TEST(Starting, DoesNotWaitForAnEndedLeader) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  ThreadStarter starter;
  service::KeeperConfig config;
  config.world_size = config.local_size = 2;
  config.leader_pid = gone;
  config.init_timeout_ms = 60000;
  service::Keeper keeper(config, listen_on(fresh_socket_name()), starter);
  EXPECT_EQ(keeper.run(), 1);
}

TEST(Starting, MissingCpuIsRefusedWithAReason) {
  NodeOptions options;
  options.ranks = 1;
  options.service_cpus = {1023};
  Node node(options);
  const auto client = client::attach(node.attach_options(0));
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
  const auto client = client::attach(attach);
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().find("could not be started"), std::string::npos) << client.error();
  thread.join();
}

}  // namespace
}  // namespace outrigger::testing
