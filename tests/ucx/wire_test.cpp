// Moves and messages between service processes of different nodes.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "wires.hpp"

// UCX keeps tables, modules and strings of its configuration until the process ends; nothing of ours is in them.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libucs.so\nleak:libucp.so\nleak:libuct.so\nleak:libucm.so\nleak:libuct_\nleak:libucx_\n";
}

namespace outrigger::testing {
namespace {

using fabric::MoveStatus;
using fabric::ucx::Wire;
using fabric::ucx::WireOptions;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_P(Wires, EverySizeFromAndToMappedAndPrivateMemory) {
  start(2);
  constexpr std::uint64_t kChunk = 256U << 10;
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{4095}, std::uint64_t{8192}, std::uint64_t{8193}, kChunk - 1,
        kChunk, kChunk + 1, 5 * kChunk + 77, std::uint64_t{5} << 20}) {
    for (const bool pulls : {true, false}) {
      for (const RegionId from : kRegions) {
        for (const RegionId to : kRegions) {
          auto& source = memory(1).range(from);
          auto& destination = memory(0).range(to);
          fill(source, bytes);
          std::ranges::fill(destination, std::byte{0xEE});
          Moved moved;
          begin(pulls, 1, block(1, from, 3, bytes), 0, block(0, to, 13, bytes), moved);
          EXPECT_FALSE(moved.ended());
          ASSERT_TRUE(run_until([&] { return moved.ended(); }));
          EXPECT_EQ(moved.status(), MoveStatus::ok);
          ASSERT_EQ(std::memcmp(source.data() + 3, destination.data() + 13, bytes), 0) << bytes << pulls;
          EXPECT_EQ(destination[12], std::byte{0xEE});
          EXPECT_EQ(destination[13 + bytes], std::byte{0xEE});
        }
      }
    }
  }
  EXPECT_EQ(wire(0).moves_in_flight() + wire(1).moves_in_flight(), 0U);
  EXPECT_TRUE(run_until([&] { return !memory(0).held() && !memory(1).held(); }));
}

struct RandomMove {
  std::uint32_t source;
  std::uint32_t destination;
  Block from;
  Block to;
  std::unique_ptr<Moved> moved;
};

// Disjoint destinations, sources as they come.
std::vector<RandomMove> random_moves(std::mt19937_64& random, std::uint32_t nodes, std::size_t count,
                                     std::uint64_t most_bytes) {
  std::vector<RandomMove> moves;
  std::vector<std::array<std::uint64_t, 2>> used(nodes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto source = static_cast<std::uint32_t>(random() % nodes);
    const auto destination = static_cast<std::uint32_t>((source + 1 + random() % (nodes - 1)) % nodes);
    const std::uint64_t bytes = 1 + (random() % 3 == 0 ? random() % most_bytes : random() % 2000);
    const std::size_t to_region = random() % 2;
    const std::uint64_t at = used[destination][to_region] + random() % 64;
    used[destination][to_region] = at + bytes;
    moves.push_back(RandomMove{source, destination, block(source, kRegions[random() % 2], random() % 100000, bytes),
                               block(destination, kRegions[to_region], (8U << 20) + at, bytes),
                               std::make_unique<Moved>()});
  }
  return moves;
}

class ManyMoves : public Wires {
 protected:
  void run(std::uint32_t nodes, const WireOptions& options, std::uint64_t seed, std::size_t count) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    start(nodes, options, 24U << 20);
    std::mt19937_64 random(seed);
    for (std::uint32_t i = 0; i < nodes; ++i) {
      for (const RegionId region : kRegions) fill(memory(i).range(region), seed + i);
    }
    auto moves = random_moves(random, nodes, count, 30000);
    for (RandomMove& move : moves) {
      begin(random() % 2 == 0, move.source, move.from, move.destination, move.to, *move.moved);
      if (random() % 4 == 0) progress_all();
    }
    ASSERT_TRUE(run_until([&] { return std::ranges::all_of(moves, [](const auto& m) { return m.moved->ended(); }); }));
    for (const RandomMove& move : moves) {
      ASSERT_EQ(move.moved->status(), MoveStatus::ok);
      const auto& source = memory(move.source).range(move.from.memory.region);
      const auto& destination = memory(move.destination).range(move.to.memory.region);
      ASSERT_EQ(std::memcmp(source.data() + (move.from.memory.address - FakeMemory::kBase),
                            destination.data() + (move.to.memory.address - FakeMemory::kBase), move.from.bytes),
                0);
    }
    for (std::uint32_t i = 0; i < nodes; ++i) {
      EXPECT_EQ(wire(i).moves_in_flight(), 0U);
      EXPECT_TRUE(run_until([&] { return !memory(i).held(); }));
    }
  }
};

TEST_P(ManyMoves, FarMoreThanTheWindowsAndStagingHold) {
  run(2, tiny_options(), 1, 1500);
}

TEST_P(ManyMoves, WithOneStagingBufferEach) {
  WireOptions options = tiny_options();
  options.send_buffers = options.receive_buffers = 0;  // counts as one
  run(2, options, 2, 300);
}

TEST_P(ManyMoves, BetweenThreeNodes) {
  run(3, tiny_options(), 3, 800);
}

TEST_P(ManyMoves, BetweenFourNodesAtDefaults) {
  run(4, {}, 4, 800);
}

TEST_P(Wires, APeerMayHaveLongerChunks) {
  WireOptions longer;
  longer.chunk_bytes = wire::kMaxChunkBytes;
  open({longer, tiny_options()});
  introduce();
  for (const bool pulls : {true, false}) {
    for (const std::uint32_t here : {0U, 1U}) {
      fill(memory(1 - here).range(kPrivateRegion), here + 1);
      Moved moved;
      begin(pulls, 1 - here, block(1 - here, kPrivateRegion, 1, 3U << 20), here,
            block(here, kPrivateRegion, 2, 3U << 20), moved);
      ASSERT_TRUE(run_until([&] { return moved.ended(); }));
      EXPECT_EQ(moved.status(), MoveStatus::ok);
      EXPECT_EQ(std::memcmp(memory(1 - here).range(kPrivateRegion).data() + 1,
                            memory(here).range(kPrivateRegion).data() + 2, 3U << 20),
                0);
    }
  }
}

TEST_P(Wires, FaultsOfMemoryAreReportedWithoutTheWire) {
  start(2);
  for (const std::uint64_t bytes : {std::uint64_t{100}, std::uint64_t{100000}, std::uint64_t{1} << 20}) {
    for (const bool pulls : {true, false}) {
      for (const RegionId region : kRegions) {
        for (const bool at_source : {true, false}) {
          const Block good = block(at_source ? 0 : 1, region, 0, bytes);
          const Block bad = block(at_source ? 1 : 0, region, kMemoryBytes - bytes + 1, bytes);
          Moved moved;
          begin(pulls, 1, at_source ? bad : good, 0, at_source ? good : bad, moved);
          ASSERT_TRUE(run_until([&] { return moved.ended(); }));
          EXPECT_EQ(moved.status(), MoveStatus::memory_fault) << bytes << pulls << at_source;
        }
      }
    }
  }
  expect_works(0, 1);
  memory(1).lose();
  for (const bool pulls : {true, false}) {
    Moved moved;
    begin(pulls, 1, block(1, kPrivateRegion, 0, 20000), 0, block(0, kPrivateRegion, 0, 20000), moved);
    ASSERT_TRUE(run_until([&] { return moved.ended(); }));
    EXPECT_EQ(moved.status(), MoveStatus::owner_lost);
  }
  EXPECT_EQ(wire(0).moves_in_flight() + wire(1).moves_in_flight(), 0U);
}

// Cancels after `steps` turns. Afterwards no bytes may be written here, and no completion is reported.
class Cancelling : public Wires {
 protected:
  void cancel_after(int steps, bool pulls, RegionId region, std::uint64_t bytes) {
    SCOPED_TRACE(std::to_string(steps) + (pulls ? " pull" : " push"));
    const std::uint32_t beginner = pulls ? 0 : 1;
    auto& destination = memory(0).range(region);
    std::array<Moved, 3> moved;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      begin(pulls, 1, block(1, region, i * bytes, bytes), 0, block(0, region, i * bytes, bytes), moved[i]);
    }
    for (int i = 0; i < steps; ++i) (void)wire(static_cast<std::size_t>(i % 2)).progress();
    {
      // The peer goes on meanwhile: what has begun to be written is waited for.
      std::atomic<bool> stop = false;
      std::thread peer([&] {
        while (!stop) (void)wire(1 - beginner).progress();
      });
      if (!moved[1].ended()) wire(beginner).cancel(moved[1]);
      wire(beginner).cancel(moved[1]);  // again: nothing to forget
      stop = true;
      peer.join();
    }
    const bool was_ended = moved[1].ended();
    const auto first = destination.begin() + static_cast<std::ptrdiff_t>(bytes);
    std::fill(first, first + static_cast<std::ptrdiff_t>(bytes), std::byte{0x77});
    ASSERT_TRUE(run_until([&] { return moved[0].ended() && moved[2].ended(); }));
    ASSERT_TRUE(run_until([&] { return wire(beginner).moves_in_flight() == 0; }));
    run_for(milliseconds(2));
    EXPECT_EQ(moved[1].ended(), was_ended);
    if (pulls) {
      EXPECT_TRUE(std::all_of(first, first + static_cast<std::ptrdiff_t>(bytes),
                              [](std::byte byte) { return byte == std::byte{0x77}; }));
    }
    EXPECT_TRUE(run_until([&] { return !memory(0).held() && !memory(1).held(); }));
    EXPECT_FALSE(wire(0).failure());
  }
};

TEST_P(Cancelling, AtEveryStageOfAPull) {
  start(2);
  for (const RegionId region : kRegions) {
    for (int steps = 0; steps < 60; ++steps) cancel_after(steps, true, region, 700000);
    for (int steps = 0; steps < 8; ++steps) cancel_after(steps, true, region, 1000);
  }
  expect_works(0, 1);
}

TEST_P(Cancelling, AtEveryStageOfAPush) {
  start(2);
  for (const RegionId region : kRegions) {
    for (int steps = 0; steps < 40; ++steps) cancel_after(steps, false, region, 700000);
    for (int steps = 0; steps < 8; ++steps) cancel_after(steps, false, region, 1000);
  }
  expect_works(1, 0);
}

TEST_P(Cancelling, WhileMovesWaitForWindowsAndStaging) {
  start(2, tiny_options());
  for (const RegionId region : kRegions) {
    for (int steps = 0; steps < 40; ++steps) cancel_after(steps, steps % 2 == 0, region, 30000);
  }
  expect_works(0, 1);
}

TEST_P(Wires, AMoveThatHasEndedButWasNotToldCanBeCancelled) {
  start(2);
  class CancelsOther final : public fabric::MoveCompletion {
   public:
    void moved(const fabric::MoveOutcome& /*outcome*/) override {
      ++calls;
      if (other != nullptr) wire->cancel(*other);
    }
    Wire* wire = nullptr;
    CancelsOther* other = nullptr;
    int calls = 0;
  };
  // Faults end without the network, both in one turn; whichever is told first forgets the other.
  std::array<CancelsOther, 2> pair;
  for (std::size_t i = 0; i < 2; ++i) {
    pair[i].wire = &wire(0);
    pair[i].other = &pair[1 - i];
    wire(0).push(SpId{1}, block(0, kPrivateRegion, kMemoryBytes, 100), block(1, kPrivateRegion, 0, 100), pair[i]);
  }
  run_for(milliseconds(20));
  EXPECT_EQ(pair[0].calls + pair[1].calls, 1);
}

TEST_P(Wires, ACalleeThatBeginsAgainWhatFailsDoesNotHoldUpTheTurn) {
  start(2);
  send(1, 0, "hello");
  ASSERT_TRUE(run_until([&] { return !messages(0).empty(); }));
  wire(1).say_goodbye();
  class Again final : public fabric::MoveCompletion {
   public:
    void moved(const fabric::MoveOutcome& outcome) override {
      status = outcome.status;
      ++calls;
      wire->pull(SpId{1}, block(1, kPrivateRegion, 0, 10), block(0, kPrivateRegion, 0, 10), *this);
    }
    Wire* wire = nullptr;
    int calls = 0;
    MoveStatus status = MoveStatus::ok;
  };
  Again again;
  again.wire = &wire(0);
  ASSERT_TRUE(run_until([&] { return wire(1).all_sent(); }));
  run_for(milliseconds(50));
  again.wire->pull(SpId{1}, block(1, kPrivateRegion, 0, 10), block(0, kPrivateRegion, 0, 10), again);
  EXPECT_EQ(again.calls, 0) << "told from inside the call that began it";
  (void)wire(0).progress();
  EXPECT_EQ(again.calls, 1);
  EXPECT_EQ(again.status, MoveStatus::owner_lost);
  wire(0).cancel(again);
}

TEST_P(Wires, MessagesComeInOrderAndAreNotHeldUpByData) {
  start(2);
  std::vector<std::unique_ptr<Moved>> moves;
  for (std::uint64_t i = 0; i < 12; ++i) {
    moves.push_back(std::make_unique<Moved>());
    begin(i % 2 == 0, 1, block(1, FakeMemory::kMapped, 0, 4U << 20), 0, block(0, kRegions[i % 2], 0, 4U << 20),
          *moves.back());
  }
  for (int i = 0; i < 20; ++i) progress_all();
  std::vector<std::string> said;
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    said.push_back(std::to_string(i) + std::string(i % 50 == 0 ? 32000 : random() % 300, 'x'));
    send(1, 0, said.back());
  }
  std::vector<std::string> heard;
  ASSERT_TRUE(run_until([&] {
    for (auto& [from, text] : messages(0)) {
      EXPECT_EQ(from, SpId{1});
      heard.push_back(std::move(text));
    }
    return heard.size() == said.size();
  }));
  EXPECT_EQ(heard, said);
  EXPECT_GT(wire(0).moves_in_flight() + wire(1).moves_in_flight(), 0U) << "data went first";
  ASSERT_TRUE(run_until([&] { return std::ranges::all_of(moves, [](const auto& m) { return m->ended(); }); }));
}

// Each link counts the same bytes as sent and as received, and at least the bytes of its node's blocks.
TEST_P(Wires, BytesAreCountedByNode) {
  constexpr std::uint64_t kBytes = 1U << 20;
  std::array<std::array<LinkCounts, 3>, 3> counts{};
  std::vector<WireOptions> options(3);
  for (std::size_t i = 0; i < options.size(); ++i) {
    options[i].links = [&counts, i] { return std::span(counts[i]); };
  }
  open(options);
  introduce();
  Moved pulled;
  Moved pushed;
  wire(0).pull(SpId{1}, block(1, kPrivateRegion, 0, kBytes), block(0, kPrivateRegion, 0, kBytes), pulled);
  wire(0).push(SpId{2}, block(0, FakeMemory::kMapped, 0, 2 * kBytes), block(2, FakeMemory::kMapped, 0, 2 * kBytes),
               pushed);
  ASSERT_TRUE(run_until([&] { return pulled.ended() && pushed.ended(); }));
  settle();
  const auto sent = [&](std::size_t from, std::size_t to) { return counts[from][to].sent_bytes.load(); };
  const auto received = [&](std::size_t at, std::size_t from) { return counts[at][from].received_bytes.load(); };
  constexpr std::uint64_t kMessages = kBytes / 2;  // headers, requests, answers: far less
  EXPECT_GE(received(0, 1), kBytes);
  EXPECT_LT(received(0, 1), kBytes + kMessages);
  EXPECT_GE(received(2, 0), 2 * kBytes);
  EXPECT_LT(received(2, 0), 2 * kBytes + kMessages);
  EXPECT_LT(sent(0, 1), kMessages);
  EXPECT_LT(sent(2, 0), kMessages);
  EXPECT_EQ(sent(1, 2) + received(1, 2) + sent(0, 0) + received(0, 0), 0U);
  for (const auto& [from, to] : {std::pair{0U, 1U}, {1U, 0U}, {0U, 2U}, {2U, 0U}}) {
    EXPECT_GT(sent(from, to), 0U);
    EXPECT_LE(received(to, from), sent(from, to)) << from << " to " << to;  // but for handshakes
    EXPECT_GE(received(to, from) + kMessages, sent(from, to)) << from << " to " << to;
  }
}

TEST_P(Wires, MessagesThatWaitAreSeen) {
  WireOptions options;
  options.waiting_messages = 8;
  start(2, options);
  const std::string text(32000, 'm');
  int sent = 0;
  for (; sent < 20000 && !wire(0).backlogged(); ++sent) send(0, 1, text);
  EXPECT_TRUE(wire(0).backlogged());
  int heard = 0;
  ASSERT_TRUE(run_until([&] { return (heard += static_cast<int>(messages(1).size())) == sent; }));
  EXPECT_FALSE(wire(0).backlogged());
}

TEST_P(Wires, SleepsOnlyAfterATurnWithoutWork) {
  start(2);
  ASSERT_TRUE(run_until([&] { return wire(0).arm(); }));
  send(0, 1, "x");
  EXPECT_FALSE(wire(0).arm());
  ASSERT_TRUE(run_until([&] { return wire(0).arm(); }));
  Moved moved;
  wire(0).pull(SpId{1}, block(1, kPrivateRegion, 0, 9), block(0, kPrivateRegion, 0, 9), moved);
  EXPECT_FALSE(wire(0).arm()) << "it would be slept on";
  ASSERT_TRUE(run_until([&] { return moved.ended(); }));
  send(1, 0, "y");
  ASSERT_TRUE(run_until([&] { return !wire(0).arm(); }));
}

// One side sleeps whenever it may; the other begins things at its own pace, and sleeps too in half of the rounds.
TEST_P(Wires, NothingIsMissedBySleepers) {
  WireOptions options = tiny_options();
  start(2, options);
  std::atomic<bool> stop = false;
  std::atomic<int> slept_too_long = 0;
  std::atomic<int> slept = 0;
  constexpr int kPatienceMs = 5000;
  const auto sleep = [&](Wire& sleeper, int extra_fd) {
    if (!sleeper.arm()) return;
    std::vector<pollfd> fds;
    for (const int fd : sleeper.descriptors()) fds.push_back(pollfd{fd, POLLIN, 0});
    if (extra_fd >= 0) fds.push_back(pollfd{extra_fd, POLLIN, 0});
    ++slept;
    if (::poll(fds.data(), fds.size(), kPatienceMs) == 0) ++slept_too_long;
  };
  std::array<int, 2> wake{};
  ASSERT_EQ(::pipe(wake.data()), 0);
  std::thread echo([&] {
    while (!stop) {
      if (wire(1).progress()) continue;
      SpId from;
      std::vector<std::byte> message;
      bool any = false;
      while (wire(1).receive(from, message)) {
        wire(1).send(from, message);
        any = true;
      }
      if (!any) sleep(wire(1), wake[0]);
    }
  });
  std::mt19937_64 random(21);
  for (int round = 0; round < 400 && slept_too_long == 0; ++round) {
    const bool sleeps = round % 2 == 0;
    const std::uint64_t bytes = 1 + random() % (round % 5 == 0 ? 60000 : 3000);
    std::array<Moved, 3> moved;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const Block there = block(1, kRegions[random() % 2], random() % 50, bytes);
      const Block here = block(0, kRegions[random() % 2], i * 100000, bytes);
      random() % 2 == 0 ? wire(0).pull(SpId{1}, there, here, moved[i]) : wire(0).push(SpId{1}, here, there, moved[i]);
    }
    if (round % 3 == 0) send(0, 1, "echo");
    std::size_t echoes = 0;
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (!std::ranges::all_of(moved, [](const Moved& m) { return m.ended(); }) ||
           (round % 3 == 0 && (echoes += messages(0).size()) == 0)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      if (!wire(0).progress() && sleeps) sleep(wire(0), -1);
    }
    if (round % 7 == 0) std::this_thread::sleep_for(milliseconds(random() % 5));
  }
  stop = true;
  EXPECT_EQ(::write(wake[1], "x", 1), 1);
  echo.join();
  ::close(wake[0]);
  ::close(wake[1]);
  EXPECT_EQ(slept_too_long, 0) << "something was missed";
  EXPECT_GT(slept, 100) << "hardly anybody slept";
}

TEST_P(Wires, EndsInTheMiddleOfEverything) {
  for (int steps = 0; steps < 24; ++steps) {
    wires_.clear();
    memories_.clear();
    addresses_.clear();
    start(3, steps % 2 == 0 ? tiny_options() : WireOptions{}, 4U << 20);
    // settle(): UCX must have made all connections before some are closed.
    for (std::uint32_t i = 0; i < 3; ++i) expect_works(i, (i + 1) % 3);
    std::vector<std::unique_ptr<Moved>> moves;
    for (std::uint32_t i = 0; i < 24; ++i) {
      const std::uint32_t there = i % 3;
      const std::uint32_t here = (i + 1 + i % 2) % 3;
      moves.push_back(std::make_unique<Moved>());
      begin(i % 4 < 2, there, block(there, kRegions[i % 2], 0, 400000), here,
            block(here, kRegions[i / 2 % 2], 0, 400000), *moves.back());
      send(there, here, "message");
    }
    for (int i = 0; i < steps; ++i) progress_all();
    for (auto& each : wires_) each.reset();
    for (const auto& each : memories_) EXPECT_FALSE(each->held());
  }
}

// Wherever it stands when it ends: a request of one end, the other's answer.
TEST_P(Wires, EndsWhenAConnectionHasJustBeenBegun) {
  for (int rounds = 0; rounds < 24; ++rounds) {
    wires_.clear();
    memories_.clear();
    addresses_.clear();
    start(2, {}, 1U << 20);
    send(0, 1, "message");
    for (int i = 0; i < rounds; ++i) progress_all();
    settle();
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Wires, kNetworks, network_name);
INSTANTIATE_TEST_SUITE_P(Networks, ManyMoves, kNetworks, network_name);
INSTANTIATE_TEST_SUITE_P(Networks, Cancelling, kNetworks, network_name);

}  // namespace
}  // namespace outrigger::testing
