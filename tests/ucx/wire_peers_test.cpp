// Peers that go, fall silent, or send what they should not.
#include <array>

#include "raw_peers.hpp"

namespace outrigger::testing {
namespace {

using fabric::MoveStatus;
using fabric::ucx::Wire;
using fabric::ucx::WireOptions;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_P(RawPeers, StrangersAreNotListenedTo) {
  std::mt19937_64 random(3);
  const auto good = shown(header(wire::Kind::message));
  for (int i = 0; i < 400; ++i) {
    auto garbage = good;
    if (i % 2 == 0)
      garbage[encoded_bytes(wire::Header()) + static_cast<std::size_t>(i) % sizeof(wire::Token)] ^= std::byte{1};
    if (i % 2 == 1) garbage[random() % 12] ^= static_cast<std::byte>(1 + random() % 255);  // not its number, or worse
    if (const auto sound = decoded<wire::Shown>(garbage);
        sound && sound->token == handshake_.token_out() && sound->header.from == SpId{1}) {
      continue;
    }
    std::span<const std::byte> sent(garbage);
    if (i % 5 == 0) sent = sent.first(random() % sent.size());
    raw_->send(i % 3 == 0 ? RawPeer::Channel::data : RawPeer::Channel::control, sent);
  }
  // A rendezvous of a stranger is dropped at once.
  wire::Header push = header(wire::Kind::push);
  push.bytes = 100000;
  auto stranger = shown(push);
  stranger.back() ^= std::byte{1};
  raw_->send(RawPeer::Channel::data, stranger, std::vector<std::byte>(100000), true);
  EXPECT_EQ(heard_until("mine", 0), std::vector<std::string>{"mine"});
  EXPECT_FALSE(wire(0).failure());
  EXPECT_TRUE(raw_->headers.empty()) << "strangers get no answer";
}

TEST_P(RawPeers, MessagesOutOfOrderArePutInOrder) {
  const std::array<std::uint64_t, 6> order{2, 1, 4, 0, 5, 3};
  for (const std::uint64_t number : order) say_message(number, std::to_string(number));
  EXPECT_EQ(heard_until("6", 6), (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6"}));
}

TEST_P(RawPeers, WhoSendsNonsenseIsBrokenOffAndNamed) {
  const std::vector<std::byte> some(5000);
  wire::Header push = header(wire::Kind::push);
  push.bytes = 4999;  // not what follows
  push.memory = block(0, kPrivateRegion, 0, 4999).memory;
  wire::Header with_status = header(wire::Kind::push);
  with_status.bytes = 5000;
  with_status.status = 1;
  wire::Header twice = header(wire::Kind::message);
  wire::Header notice = header(wire::Kind::eager);
  notice.bytes = 5000;
  wire::Header chunk = header(wire::Kind::eager_chunk);
  chunk.bytes = 5000;
  const std::vector<std::function<void()>> attacks{
      [&] { raw_->send(RawPeer::Channel::data, shown(push), some); },
      [&] { raw_->send(RawPeer::Channel::data, shown(push), some, true); },
      [&] { raw_->send(RawPeer::Channel::data, shown(with_status), some); },
      [&] { raw_->send(RawPeer::Channel::control, shown(with_status), some); },
      [&] { raw_->send(RawPeer::Channel::data, shown(twice), some, true); },  // control by rendezvous
      [&] {
        say(twice, "a");
        say(twice, "b");
      },
      [&] { say(notice, "too short for a block's name"); },
      [&] { say(notice, std::string(sizeof(BlockId) + 4999, 'x')); },  // not the bytes it speaks of
      [&] {
        notice.bytes = 1U << 20;
        say(notice, std::string(sizeof(BlockId), 'x'));  // more than there is room for
      },
      [&] {
        raw_->send(RawPeer::Channel::data, shown(chunk), some);
        raw_->send(RawPeer::Channel::data, shown(chunk), some);
      },
      [&] { raw_->send(RawPeer::Channel::data, shown(chunk), some, true); },
      [&] {  // longer than its header says
        chunk.bytes = 4999;
        raw_->send(RawPeer::Channel::control, shown(chunk), some);
      },
      [&] { say(header(wire::Kind::batch), "too short for a message"); },
      [&] {
        wire::Header stranger = header(wire::Kind::ping);
        stranger.from = SpId{0};
        std::vector<std::byte> batch;
        append(batch, wire::Framed{stranger, {}});
        raw_->send(RawPeer::Channel::control, shown(header(wire::Kind::batch)), batch);
      },
      [&] {  // bytes for memory on the control channel
        std::vector<std::byte> batch;
        append(batch, wire::Framed{push, std::span(some).first(4999)});
        raw_->send(RawPeer::Channel::control, shown(header(wire::Kind::batch)), batch);
      },
  };
  for (std::size_t i = 0; i < attacks.size(); ++i) {
    SCOPED_TRACE(i);
    start_raw({});
    attacks[i]();
    run_a_while();
    wire(0).tick(false);
    EXPECT_FALSE(wire(0).failure()) << "nobody has business with it";
    const auto failure = failure_within(3);
    ASSERT_TRUE(failure);
    EXPECT_NE(failure->find("node n1 is lost"), std::string::npos) << *failure;
    EXPECT_NE(failure->find("sent a malformed"), std::string::npos) << *failure;
    EXPECT_EQ(memory(0).range(kPrivateRegion)[0], std::byte{0});
  }
}

TEST_P(RawPeers, AnswersThatNobodyAskedForAreIgnored) {
  const std::vector<std::byte> some(5000, std::byte{1});
  for (const wire::Kind kind : {wire::Kind::data, wire::Kind::stored, wire::Kind::pong}) {
    wire::Header answer = header(kind);
    answer.move = 1;
    answer.bytes = kind == wire::Kind::data ? some.size() : 0;
    raw_->send(RawPeer::Channel::data, shown(answer), kind == wire::Kind::data ? some : std::vector<std::byte>{});
    if (kind == wire::Kind::data) raw_->send(RawPeer::Channel::data, shown(answer), some, true);
  }
  EXPECT_EQ(heard_until("on", 0).size(), 1U);
  EXPECT_FALSE(failure_within(1));
}

TEST_P(RawPeers, AChunkThatComesTwiceIsTakenOnce) {
  Moved moved;
  wire(0).pull(SpId{1}, block(1, kPrivateRegion, 0, 50000), block(0, FakeMemory::kMapped, 0, 50000), moved);
  ASSERT_TRUE(run([&] { return raw_->count(wire::Kind::request) == 1; }));
  wire::Header data = raw_->headers.back();
  data.kind = wire::Kind::data;
  data.from = SpId{1};
  data.memory = {};
  for (std::byte value{1}; value < std::byte{4}; value = static_cast<std::byte>(std::to_integer<int>(value) + 1)) {
    raw_->send(RawPeer::Channel::data, shown(data), std::vector<std::byte>(50000, value), true);
  }
  ASSERT_TRUE(run([&] { return moved.ended(); }));
  run_a_while();
  EXPECT_EQ(moved.status(), MoveStatus::ok);
  EXPECT_EQ(memory(0).range(FakeMemory::kMapped)[49999], std::byte{1});
  EXPECT_EQ(wire(0).moves_in_flight(), 0U);
}

TEST_P(RawPeers, WindowsBoundWhatIsUnderWay) {
  start_raw(tiny_options());
  std::vector<std::unique_ptr<Moved>> moves;
  for (std::uint64_t i = 0; i < 20; ++i) {
    moves.push_back(std::make_unique<Moved>());
    wire(0).pull(SpId{1}, block(1, kPrivateRegion, 0, 10000), block(0, kPrivateRegion, i * 10000, 10000),
                 *moves.back());
  }
  ASSERT_TRUE(run([&] { return raw_->headers.size() >= 2; }));
  run_a_while();
  std::uint64_t bytes = 0;
  for (const wire::Header& asked : raw_->headers) bytes += asked.bytes;
  EXPECT_LE(bytes, tiny_options().peer_window_bytes);
  EXPECT_GE(bytes, tiny_options().peer_window_bytes / 2);
  // Round-robin: no move requests its second chunk before all others have requested their first.
  EXPECT_NE(raw_->headers[0].move, raw_->headers[1].move);
  for (const auto& move : moves) wire(0).cancel(*move);
}

TEST_P(RawPeers, WindowsBoundTheNumberOfSmallMovesToo) {
  std::vector<std::unique_ptr<Moved>> moves;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    moves.push_back(std::make_unique<Moved>());
    wire(0).pull(SpId{1}, block(1, kPrivateRegion, i, 1), block(0, kPrivateRegion, i, 1), *moves.back());
  }
  const std::size_t many = GetParam() ? 1000 : 500;  // where processors copy, a window begins small
  EXPECT_TRUE(run([&] { return raw_->headers.size() > many; }));
  run_a_while();
  EXPECT_LE(raw_->headers.size(), WireOptions{}.requests_of_peer) << "the peer would take it for an attack";
  wires_.clear();
}

// Over TCP each network message wakes its receiver.
TEST_P(RawPeers, ShortEagerBlocksJoinTheMessagesOfTheirTurn) {
  if (GetParam()) GTEST_SKIP() << "where the network moves memory only shorter blocks go eagerly";
  send(0, 1, "hello");
  ASSERT_TRUE(run([&] { return raw_->count(wire::Kind::message) == 1; }));
  std::uint64_t number = 0;
  const auto offer = [&](std::uint64_t bytes, RegionId region) {
    const BlockId id{OperationId{GroupId{1, 2}, ++number}, GroupRank{0}, GroupRank{1}};
    wire(0).send_eager(id, block(0, region, 0, bytes), SpId{1});
    send(0, 1, "announced");
  };
  const auto network_messages = [&] {
    raw_->tokens.clear();
    raw_->headers.clear();
    EXPECT_TRUE(
        run([&] { return raw_->count(wire::Kind::eager_chunk) == 2 && raw_->count(wire::Kind::message) == 2; }));
    EXPECT_EQ(raw_->count(wire::Kind::eager), 2U);
    return raw_->tokens.size();
  };
  offer(16U << 10, kPrivateRegion);
  offer(16U << 10, FakeMemory::kMapped);
  EXPECT_EQ(network_messages(), 1U) << "two blocks, their notices and two messages";
  offer(16U << 10, kPrivateRegion);
  offer((16U << 10) + 1, FakeMemory::kMapped);
  EXPECT_EQ(network_messages(), 3U) << "so many bytes would delay later messages";
}

TEST_P(RawPeers, WhoAsksForMoreThanItMayIsBrokenOff) {
  WireOptions options;
  options.requests_of_peer = 4;
  options.send_buffers = 2;
  start_raw(options);
  wire::Header request = header(wire::Kind::request);
  request.bytes = 100000;
  request.memory = block(0, kPrivateRegion, 0, 100000).memory;
  for (std::uint64_t i = 0; i < 12; ++i) {
    request.offset = i;
    say(request);
  }
  (void)run_until([] { return false; }, milliseconds(100));  // the raw peer receives nothing, the buffers are out
  const auto failure = failure_within(3);
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->find("sent too many requests"), std::string::npos) << *failure;
}

TEST_P(RawPeers, SilenceIsAskedAboutAndThenALoss) {
  WireOptions options;
  options.turns_until_ping = 2;
  options.turns_until_lost = 5;
  start_raw(options);
  send(0, 1, "x");
  ASSERT_TRUE(run([&] { return raw_->count(wire::Kind::message) == 1; }));
  for (int turn = 1; turn <= 4; ++turn) {
    wire(0).tick(true);
    run_a_while();
    EXPECT_EQ(raw_->count(wire::Kind::ping), static_cast<std::size_t>(turn >= 2 ? turn - 1 : 0));
    ASSERT_FALSE(wire(0).failure());
  }
  say(header(wire::Kind::pong));  // a sign of life
  run_a_while();
  for (int turn = 0; turn < 5; ++turn) {
    ASSERT_FALSE(wire(0).failure());
    wire(0).tick(true);
    run_a_while();
  }
  ASSERT_FALSE(wire(0).failure()) << "the sign of life counts from its turn on";
  wire(0).tick(false);
  for (int turn = 0; turn < 4; ++turn) wire(0).tick(true);
  EXPECT_FALSE(wire(0).failure()) << "turns without interest do not count";
  wire(0).tick(true);
  ASSERT_TRUE(wire(0).failure());
  EXPECT_EQ(wire(0).failure()->reason, "node n1 is lost: service process 1 there does not answer");
}

TEST_P(RawPeers, APeerWhoseDataLineBreaksIsLostThoughItGoesOnTalking) {
  Moved moved;
  wire(0).push(SpId{1}, block(0, kPrivateRegion, 0, 100000), block(1, kPrivateRegion, 0, 100000), moved);
  ASSERT_TRUE(run([&] { return raw_->count(wire::Kind::push) >= 1; }));
  raw_->drop_data_line();
  for (int turn = 0; turn < 5 && !wire(0).failure(); ++turn) {
    say(header(wire::Kind::ping));
    run_a_while();
    wire(0).tick(true);
  }
  ASSERT_TRUE(wire(0).failure());
  EXPECT_EQ(wire(0).failure()->reason, "node n1 is lost: service process 1 there has disconnected");
  EXPECT_FALSE(moved.ended());
}

TEST_P(Wires, APeerThatEndsWithoutGoodbyeIsALossForThoseConcerned) {
  start(3);
  expect_works(0, 1);
  expect_works(2, 1);
  expect_works(0, 2);
  wires_[1].reset();
  for (int turn = 0; turn < 10; ++turn) {
    run_for(milliseconds(20));
    wire(0).tick(false);
  }
  EXPECT_FALSE(wire(0).failure());
  int turns = 0;
  for (; turns < 10 && !wire(0).failure(); ++turns) {
    run_for(milliseconds(20));
    wire(0).tick(true);
  }
  ASSERT_TRUE(wire(0).failure());
  EXPECT_LE(turns, 3) << "a broken connection is no silence";
  EXPECT_EQ(wire(0).failure()->reason, "node n1 is lost: service process 1 there has disconnected");
  expect_works(0, 2);
}

TEST_P(Wires, APeerThatWasOnlyHeardAndDiesIsALoss) {
  start(2);
  send(1, 0, "here I am");
  ASSERT_TRUE(run_until([&] { return !messages(0).empty(); }));
  wires_[1].reset();
  int turns = 0;
  for (; turns < 10 && !wire(0).failure(); ++turns) {
    run_for(milliseconds(50));
    wire(0).tick(true);
  }
  EXPECT_TRUE(wire(0).failure());
  EXPECT_LE(turns, 8);
}

TEST_P(Wires, AGoodbyeIsNoLoss) {
  start(2);
  expect_works(0, 1);
  wire(1).say_goodbye();
  ASSERT_TRUE(run_until([&] { return wire(1).all_sent(); }));
  wires_[1].reset();
  for (int turn = 0; turn < 12; ++turn) {
    run_for(milliseconds(10));
    wire(0).tick(true);
  }
  EXPECT_FALSE(wire(0).failure()) << wire(0).failure()->reason;
  send(0, 1, "into the void");
  wire(0).say_goodbye();
  EXPECT_TRUE(run_until([&] { return wire(0).all_sent(); }, seconds(5)));
}

TEST_P(Wires, WhoHasLostItsNodeSaysSo) {
  start(3);
  expect_works(0, 1);
  expect_works(2, 1);
  wire(1).say_goodbye(Wire::Farewell::node_lost);
  ASSERT_TRUE(run_until([&] { return wire(1).all_sent(); }));
  for (int turn = 0; turn < 10; ++turn) {  // its end may take long, and does not delay the others
    run_for(milliseconds(10));
    wire(0).tick(true);
    wire(2).tick(false);  // its ranks may wait for those of the other node by other means than ours
  }
  for (const std::size_t other : {0U, 2U}) {
    ASSERT_TRUE(wire(other).failure());
    EXPECT_EQ(wire(other).failure()->reason, "node n1 is lost: service process 1 there has lost its host");
  }
}

TEST_P(Wires, WhoWasOnlySpokenToSaysGoodbyeToo) {
  start(2);
  send(0, 1, "hello");
  ASSERT_TRUE(run_until([&] { return !messages(1).empty(); }));
  wire(1).say_goodbye();
  ASSERT_TRUE(run_until([&] { return wire(1).all_sent(); }));
  wires_[1].reset();
  for (int turn = 0; turn < 10; ++turn) {
    run_for(milliseconds(10));
    wire(0).tick(true);
  }
  EXPECT_FALSE(wire(0).failure()) << wire(0).failure()->reason;
}

TEST_P(Wires, MovesWithAPeerThatHasLeftEnd) {
  start(2, tiny_options());
  expect_works(0, 1);
  std::vector<std::unique_ptr<Moved>> moves;
  for (std::uint64_t i = 0; i < 20; ++i) {
    moves.push_back(std::make_unique<Moved>());
    begin(true, i % 2 == 0 ? 1 : 0, block(i % 2 == 0 ? 1 : 0, FakeMemory::kMapped, 0, 50000), i % 2 == 0 ? 0 : 1,
          block(i % 2 == 0 ? 0 : 1, kPrivateRegion, i * 50000, 50000), *moves.back());
    if (i % 2 == 1) {  // those of the one that leaves are forgotten by it
      wire(1).cancel(*moves.back());
      moves.pop_back();
    }
  }
  for (int i = 0; i < 6; ++i) progress_all();
  wire(1).say_goodbye();
  ASSERT_TRUE(run_until([&] { return wire(1).all_sent(); }));
  wires_[1].reset();
  ASSERT_TRUE(run_until([&] { return std::ranges::all_of(moves, [](const auto& m) { return m->ended(); }); }));
  EXPECT_TRUE(std::ranges::any_of(moves, [](const auto& m) { return m->status() == MoveStatus::owner_lost; }));
  Moved late;
  wire(0).pull(SpId{1}, block(1, kPrivateRegion, 0, 5), block(0, kPrivateRegion, 0, 5), late);
  ASSERT_TRUE(run_until([&] { return late.ended(); }));
  EXPECT_EQ(late.status(), MoveStatus::owner_lost);
  EXPECT_EQ(wire(0).moves_in_flight(), 0U);
}

// The job ends with the name of the node: moves with it do not end before.
TEST_P(Wires, APeerThatDiesInTheMiddleOfMovesIsNamed) {
  for (int steps = 1; steps < 40; steps += 3) {
    SCOPED_TRACE(steps);
    wires_.clear();
    memories_.clear();
    addresses_.clear();
    start(2, {}, 4U << 20);
    expect_works(0, 1);  // UCX 1.13 aborts when it is closed while a connection is being made
    std::array<Moved, 6> moves;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const Block there = block(1, i % 3 == 0 ? kPrivateRegion : FakeMemory::kMapped, 0, 4U << 20);
      const Block here = block(0, i % 3 == 1 ? kPrivateRegion : FakeMemory::kMapped, 0, 4U << 20);
      i % 2 == 0 ? wire(0).pull(SpId{1}, there, here, moves[i]) : wire(0).push(SpId{1}, here, there, moves[i]);
    }
    for (int i = 0; i < steps; ++i) progress_all();
    wires_[1].reset();
    int turns = 0;
    for (; turns < 9 && !wire(0).failure(); ++turns) {
      run_for(milliseconds(10));
      wire(0).tick(true);
    }
    ASSERT_TRUE(wire(0).failure());
    for (const Moved& moved : moves) EXPECT_TRUE(!moved.ended() || moved.status() == MoveStatus::ok);
    wires_[0].reset();
    EXPECT_FALSE(memory(0).held());
  }
}

TEST_P(Wires, JobMapsThatDoNotFitAreRefused) {
  open(2);
  JobMap job_map = make_job_map();
  auto refused = [&](SpId self, const std::string& reason) {
    const Status status = wire(0).introduce(job_map, self);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().find(reason), std::string::npos) << status.error();
  };
  refused(SpId{1}, "does not contain this service process");
  refused(SpId{2}, "does not contain this service process");
  refused(SpId{0xFFFFFFFF}, "does not contain this service process");
  const auto right = job_map.nodes[1].addresses[0];
  for (const std::size_t length : {0U, 3U, 4U, 5U}) {
    job_map.nodes[1].addresses[0].assign(length, std::byte{0xFF});
    refused(SpId{0}, "service process 1 on node n1 has no network address");
  }
  job_map.nodes[1].addresses[0] = right;
  EXPECT_TRUE(wire(0).introduce(job_map, SpId{0}));
}

TEST(WireOpening, TransportsThatDoNotExistAreAnErrorWithAName) {
  FakeMemory memory(100);
  WireOptions options;
  options.transports = "carrier_pigeon";
  const auto opened = fabric::ucx::Wire::open(options, memory);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().find("carrier_pigeon"), std::string::npos) << opened.error();
}

INSTANTIATE_TEST_SUITE_P(Networks, RawPeers, kNetworks, network_name);

}  // namespace
}  // namespace outrigger::testing
