// Peers that are replaced by others: a wire goes, as a process that is killed does, and another one takes its place,
// over the same memory.
#include "raw_peers.hpp"

namespace outrigger::testing {
namespace {

using fabric::MoveStatus;
using fabric::ucx::WireOptions;

class Moving : public Wires {
 protected:
  // Without a farewell. Its connections must have been made before (meet()), or none: UCX 1.13 aborts in a worker that
  // goes while one is being made. A process that is killed does nothing of that.
  void kill(std::size_t i) { wires_[i].reset(); }
  void meet() {
    expect_works(0, 1);
    settle();
  }
  // Another one in its place, which others have not heard of yet.
  void replace(std::size_t i, const WireOptions& options = {}) {
    WireOptions same = options;
    same.moves_memory = GetParam();
    if (same.transports.empty()) same.transports = transports();
    epochs_.resize(wires_.size(), 1);
    ++epochs_[i];
    auto opened = fabric::ucx::Wire::open(same, *memories_[i]);
    ASSERT_TRUE(opened) << opened.error();
    wires_[i] = std::move(opened).value();
    addresses_[i] = wires_[i]->address();
    // It gets the job map with its own address, and with the others' as they were in the beginning.
    JobMap job_map = job_map_;
    job_map.nodes[i].addresses[0] = addresses_[i];
    const auto number = static_cast<std::uint32_t>(i);
    const Status introduced = wires_[i]->introduce(job_map, SpId{number}, {}, Epoch{epochs_[i]});
    ASSERT_TRUE(introduced) << introduced.error();
    for (std::size_t other = 0; other < wires_.size(); ++other) {
      if (other != i && epochs_[other] > 1) tell(i, other);
    }
  }
  // Node `here` hears where the one of node `moved` is now.
  void tell(std::size_t here, std::size_t moved) {
    const Status told = wire(here).replacements().moved(SpId{static_cast<std::uint32_t>(moved)}, Epoch{epochs_[moved]},
                                                        addresses_[moved]);
    ASSERT_TRUE(told) << told.error();
  }
  void tell_all_of(std::size_t moved) {
    for (std::size_t i = 0; i < wires_.size(); ++i) {
      if (i != moved && wires_[i] != nullptr) tell(i, moved);
    }
  }
  std::vector<std::uint32_t> epochs_;
};

TEST_P(Moving, MovesInFlightGoOnWithTheOneInItsPlace) {
  std::mt19937_64 random(11);
  constexpr std::uint64_t kBytes = 2U << 20;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    settle();
    wires_.clear();
    memories_.clear();
    addresses_.clear();
    epochs_.clear();
    start(2);
    meet();
    std::deque<Moved> moved;
    std::size_t expected = 0;
    for (const RegionId region : kRegions) {
      fill(memory(1).range(region), 1);
      fill(memory(0).range(region), 2);
      for (const bool pulls : {true, false}) {
        const std::uint64_t there = pulls ? 0 : kBytes;  // each to a place of its own, both ways
        begin(pulls, 1, block(1, region, 0, kBytes), 0, block(0, region, 4 * kBytes + there, kBytes),
              moved.emplace_back());
        ++expected;
      }
    }
    // Moves that node 1 has begun end without a report: its engine begins them again.
    for (std::uint64_t steps = random() % 60; steps > 0; --steps) progress_all();
    kill(1);
    for (std::uint64_t steps = random() % 40; steps > 0; --steps) progress_all();
    replace(1);
    std::deque<Moved> again;
    for (std::size_t i = 0; i < kRegions.size(); ++i) {
      begin(false, 1, block(1, kRegions[i], 0, kBytes), 0, block(0, kRegions[i], 5 * kBytes, kBytes),
            again.emplace_back());
    }
    for (std::uint64_t steps = random() % 20; steps > 0; --steps) progress_all();
    tell_all_of(1);
    ASSERT_TRUE(run_until([&] {
      return moved[0].ended() && moved[2].ended() &&
             std::ranges::all_of(again, [](const Moved& one) { return one.ended(); });
    }));
    EXPECT_EQ(moved[0].status(), MoveStatus::ok);
    EXPECT_EQ(moved[2].status(), MoveStatus::ok);
    for (const Moved& one : again) EXPECT_EQ(one.status(), MoveStatus::ok);
    for (const RegionId region : kRegions) {
      const auto& here = memory(0).range(region);
      const auto& there = memory(1).range(region);
      for (const std::uint64_t place : {4 * kBytes, 5 * kBytes}) {
        EXPECT_TRUE(
            std::equal(there.begin(), there.begin() + kBytes, here.begin() + static_cast<std::ptrdiff_t>(place)));
      }
    }
    EXPECT_EQ(expected, moved.size());
    EXPECT_EQ(wire(0).moves_in_flight(), 0U);
    EXPECT_EQ(wire(0).traffic().under_way_bytes, 0U);
    EXPECT_FALSE(wire(0).failure()) << wire(0).failure()->reason;
    expect_works(0, 1);
  }
}

TEST_P(Moving, PushesToOneThatHasDiedGoToTheOneInItsPlace) {
  start(2);
  meet();
  constexpr std::uint64_t kBytes = 2U << 20;
  fill(memory(0).range(FakeMemory::kMapped), 5);
  Moved moved;
  wire(0).push(SpId{1}, block(0, FakeMemory::kMapped, 0, kBytes), block(1, FakeMemory::kMapped, 7, kBytes), moved);
  for (int i = 0; i < 30; ++i) progress_all();
  kill(1);
  replace(1);
  tell_all_of(1);
  ASSERT_TRUE(run_until([&] { return moved.ended(); }));
  EXPECT_EQ(moved.status(), MoveStatus::ok);
  const auto& from = memory(0).range(FakeMemory::kMapped);
  EXPECT_TRUE(std::equal(from.begin(), from.begin() + kBytes, memory(1).range(FakeMemory::kMapped).begin() + 7));
}

TEST_P(Moving, WhatWasSaidToTheFormerOneIsForgottenAndNothingIsLostAfterwards) {
  WireOptions patient;
  // Turns are short here.
  patient.turns_until_lost = patient.turns_until_not_met = patient.turns_until_given_up = 1'000'000;
  patient.turns_until_connected_anew = 1'000'000;
  start(3, patient);
  send(0, 1, "before");
  ASSERT_TRUE(run_until([&] { return messages(1).size() == 1; }));
  settle();
  kill(1);
  send(0, 1, "to nobody");
  for (int i = 0; i < 20; ++i) progress_all();
  replace(1, patient);
  send(1, 0, "early");  // it is called back once it is known
  send(1, 2, "early");  // who had nothing to do with the former one
  for (int i = 0; i < 20; ++i) progress_all();
  EXPECT_TRUE(messages(0).empty() && messages(2).empty());
  tell_all_of(1);
  send(0, 1, "first");
  send(0, 1, "second");
  std::vector<std::string> heard;
  std::size_t early = 0;
  ASSERT_TRUE(run_until([&] {
    for (const auto& [from, text] : messages(1)) heard.push_back(text);
    for (const std::size_t i : {0U, 2U}) early += messages(i).size();
    // Service processes repeat their handshakes every second.
    for (std::size_t i = 0; i < 3; ++i) wire(i).tick(true);
    return heard.size() == 2 && early == 2;
  }));
  EXPECT_EQ(heard, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(wire(0).failure(), nullptr) << wire(0).failure()->reason;
}

TEST_P(Moving, TwoThatDieAtOnceFindEachOther) {
  start(2);
  meet();
  kill(0);
  kill(1);
  replace(0);
  replace(1);  // hears of 0
  tell(0, 1);
  send(0, 1, "a");
  send(1, 0, "b");
  std::size_t heard = 0;
  ASSERT_TRUE(run_until([&] { return (heard += messages(0).size() + messages(1).size()) == 2; }));
  expect_works(1, 0);
}

TEST_P(Moving, OnlyTheNewestCounts) {
  start(2);
  meet();
  const auto first = addresses_[1];
  kill(1);
  replace(1);
  const auto second = addresses_[1];
  kill(1);
  replace(1);
  tell(0, 1);
  EXPECT_TRUE(wire(0).replacements().moved(SpId{1}, Epoch{2}, second)) << "what comes late";
  EXPECT_TRUE(wire(0).replacements().moved(SpId{1}, Epoch{3}, second)) << "what comes twice";
  EXPECT_TRUE(wire(0).replacements().moved(SpId{1}, Epoch{1}, first));
  expect_works(0, 1);
  EXPECT_FALSE(wire(0).replacements().moved(SpId{0}, Epoch{2}, second)) << "itself";
  EXPECT_FALSE(wire(0).replacements().moved(SpId{2}, Epoch{2}, second)) << "nobody";
  EXPECT_FALSE(wire(0).replacements().moved(SpId{1}, Epoch{4}, {})) << "nowhere";
  expect_works(0, 1);
}

TEST_P(Moving, EagerBlocksOfTheFormerOneMakeRoom) {
  start(2);
  const BlockId id{OperationId{GroupId{1, 2}, 3}, GroupRank{1}, GroupRank{0}};
  for (int round = 0; round < 6; ++round) {
    // All of the room, and it is never withdrawn.
    wire(1).send_eager(id, block(1, FakeMemory::kMapped, 0, 256U << 10), SpId{0});
    settle();
    kill(1);
    replace(1);
    tell_all_of(1);
    fill(memory(1).range(FakeMemory::kMapped), static_cast<std::uint64_t>(round));
    Moved moved;
    wire(0).pull(SpId{1}, block(1, FakeMemory::kMapped, 0, 256U << 10), block(0, FakeMemory::kMapped, 0, 256U << 10),
                 moved, {.eager = &id, .others = nullptr});
    ASSERT_TRUE(run_until([&] { return moved.ended(); }));
    EXPECT_TRUE(std::equal(memory(0).range(FakeMemory::kMapped).begin(),
                           memory(0).range(FakeMemory::kMapped).begin() + (256 << 10),
                           memory(1).range(FakeMemory::kMapped).begin()));
    EXPECT_EQ(wire(0).traffic().under_way_bytes, 0U);
  }
}

// One whose node shows that it is there is waited for, but not for ever.
TEST_P(Moving, ASilentOneIsAskedForAndWaitedFor) {
  std::vector<WireOptions> options(2);
  std::vector<SpId> asked;
  options[0].on_silent = [&](SpId sp) { asked.push_back(sp); };
  options[0].turns_until_given_up = 20;
  open(options);
  introduce();
  meet();
  wire(0).tick(true);
  kill(1);
  for (int i = 0; i < 100; ++i) progress_all();
  int turns = 0;
  for (; turns < 100 && !wire(0).failure(); ++turns) {
    asked.clear();
    wire(0).tick(true);
    for (const SpId sp : asked) wire(0).replacements().expect(sp, Epoch{0});
  }
  EXPECT_EQ(turns, 20);
  ASSERT_TRUE(wire(0).failure());
  EXPECT_NE(wire(0).failure()->reason.find("node n1 is lost"), std::string::npos) << wire(0).failure()->reason;
}

// Then this end's whole process must be replaced. Until that is sure, the peer may have died unnoticed by its keeper.
TEST_P(Moving, ABrokenConnectionToOneThatLivesIsNoLossOfItsNode) {
  std::vector<WireOptions> options(2);
  int asked = 0;
  options[0].on_silent = [&](SpId sp) {
    ++asked;
    // It is there, with the connection broken, or so its node says to all who ask.
    for (int answers = 0; answers < 4; ++answers) wire(0).replacements().expect(sp, Epoch{1});
  };
  open(options);
  introduce();
  meet();
  wire(0).tick(true);
  kill(1);
  for (int i = 0; i < 100; ++i) progress_all();
  int turns = 0;
  for (; turns < 100 && !wire(0).failure(); ++turns) wire(0).tick(true);
  EXPECT_LE(turns, 4);
  EXPECT_EQ(asked, 2);
  ASSERT_TRUE(wire(0).failure());
  EXPECT_EQ(wire(0).failure()->of, fabric::PortFailure::Of::connection);
  EXPECT_EQ(wire(0).failure()->reason, "has lost its connection to service process 1 on node n1");
}

INSTANTIATE_TEST_SUITE_P(Networks, Moving, kNetworks, network_name);

// A former one that goes on by some mistake, or whose words come late.
TEST_P(RawPeers, AFormerOneIsNotListenedToAnyMore) {
  say_message(0, "before");
  std::vector<std::pair<SpId, std::string>> heard;
  ASSERT_TRUE(run([&] { return !(heard = messages(0)).empty(); }));
  const std::vector<std::byte> address = raw_->address();
  ASSERT_TRUE(wire(0).replacements().moved(SpId{1}, Epoch{2}, address));
  say_message(1, "late");
  wire::Header push = header(wire::Kind::push);
  push.bytes = 5000;
  push.memory = block(0, kPrivateRegion, 0, 5000).memory;
  const std::vector<std::byte> some(5000, std::byte{1});
  raw_->send(RawPeer::Channel::data, shown(push), some);
  raw_->send(RawPeer::Channel::data, shown(push), some, true);
  // A handshake of the old process, which does not know that it has been replaced.
  handshake_ = proof::Handshake(job_, SpId{1}, SpId{0});
  send_handshake(handshake_.call().value());
  run_a_while();
  EXPECT_FALSE(handshake_.is_open());
  EXPECT_TRUE(messages(0).empty());
  EXPECT_EQ(memory(0).range(kPrivateRegion)[0], std::byte{0});
  // The one in its place, at the same address here.
  handshake_ = proof::Handshake(job_, SpId{1}, SpId{0}, Epoch{2}, Epoch{1});
  send_handshake(handshake_.call().value());
  ASSERT_TRUE(run([&] { return handshake_.is_open(); }));
  EXPECT_EQ(heard_until("after", 0), std::vector<std::string>{"after"});
  EXPECT_FALSE(wire(0).failure());
}

}  // namespace
}  // namespace outrigger::testing
