// Blocks that are sent before they are asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "fabric/ucx/eager_blocks.hpp"
#include "wires.hpp"

namespace outrigger::testing {
namespace {

using fabric::MoveStatus;
using fabric::ucx::EagerBlocks;
using fabric::ucx::WireOptions;

BlockId block_id(std::uint64_t sequence) {
  return BlockId{OperationId{GroupId{1, 2}, sequence}, GroupRank{3}, GroupRank{4}};
}

std::vector<std::byte> some(std::size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{7});
}

// ---------------------------------------------------------------- what is kept of one peer's blocks

TEST(Ahead, PartsMayComeBeforeTheirNotice) {
  EagerBlocks blocks(1000);
  ASSERT_NE(blocks.chunk_came(1, 400, 200), nullptr);
  blocks.keep(1, 400, some(200));
  EXPECT_EQ(blocks.awaited_bytes(), 0U) << "nobody knows how much will come";
  ASSERT_NE(blocks.notice(1, block_id(0), 600), nullptr);
  EXPECT_EQ(blocks.awaited_bytes(), 400U);
  const auto* block = blocks.find(block_id(0));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->chunks.size(), 1U);
  EXPECT_FALSE(block->complete());
  ASSERT_NE(blocks.chunk_came(1, 0, 400), nullptr);
  EXPECT_TRUE(block->complete());
  EXPECT_EQ(blocks.awaited_bytes(), 0U);
}

TEST(Ahead, NonsenseIsSeen) {
  EagerBlocks blocks(1000);
  EXPECT_EQ(blocks.notice(1, block_id(0), 0), nullptr);
  EXPECT_EQ(blocks.notice(1, block_id(0), 1001), nullptr) << "more than it may send";
  ASSERT_NE(blocks.notice(1, block_id(0), 500), nullptr);
  EXPECT_EQ(blocks.notice(1, block_id(1), 500), nullptr) << "two blocks of one number";
  EXPECT_EQ(blocks.chunk_came(1, 400, 101), nullptr) << "past the end";
  EXPECT_EQ(blocks.chunk_came(1, ~std::uint64_t{0}, 2), nullptr);
  EXPECT_EQ(blocks.chunk_came(1, 0, 0), nullptr);
  ASSERT_NE(blocks.chunk_came(1, 100, 100), nullptr);
  for (const std::uint64_t offset : {51U, 100U, 199U}) {
    EXPECT_EQ(blocks.chunk_came(1, offset, 50), nullptr) << "came before, from " << offset;
  }
  ASSERT_NE(blocks.chunk_came(1, 50, 50), nullptr);
  ASSERT_NE(blocks.chunk_came(1, 200, 300), nullptr);
  ASSERT_NE(blocks.chunk_came(2, 0, 700), nullptr);
  EXPECT_EQ(blocks.notice(2, block_id(2), 699), nullptr) << "less than has come";
}

TEST(Ahead, WhatIsNotWantedGoesWithItsLastByte) {
  EagerBlocks blocks(1000);
  ASSERT_NE(blocks.notice(1, block_id(0), 600), nullptr);
  ASSERT_NE(blocks.chunk_came(1, 0, 200), nullptr);
  blocks.keep(1, 0, some(200));
  blocks.give_up(1);
  EXPECT_EQ(blocks.kept_bytes(), 0U);
  EXPECT_EQ(blocks.find(block_id(0)), nullptr);
  ASSERT_NE(blocks.chunk_came(1, 200, 400), nullptr);
  EXPECT_TRUE(blocks.find(std::uint64_t{1})->complete());
  blocks.erase(1);
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(blocks.awaited_bytes(), 0U);
}

TEST(Ahead, OfTooMuchTheOldestAreGivenUp) {
  EagerBlocks blocks(1000);
  for (std::uint64_t number = 1; number <= 4; ++number) {
    ASSERT_NE(blocks.notice(number, block_id(number), 400), nullptr);
    ASSERT_NE(blocks.chunk_came(number, 0, 300), nullptr);
    blocks.keep(number, 0, some(300));
    EXPECT_LE(blocks.kept_bytes(), 1000U);
  }
  EXPECT_EQ(blocks.find(block_id(1)), nullptr);
  for (std::uint64_t number = 2; number <= 4; ++number) EXPECT_NE(blocks.find(block_id(number)), nullptr) << number;
  // One that was given up before its notice came is not wanted after it either.
  ASSERT_NE(blocks.chunk_came(5, 0, 500), nullptr);
  blocks.keep(5, 0, some(500));
  ASSERT_NE(blocks.chunk_came(6, 0, 900), nullptr);
  blocks.keep(6, 0, some(900));
  ASSERT_NE(blocks.notice(5, block_id(5), 600), nullptr);
  EXPECT_EQ(blocks.find(block_id(5)), nullptr) << "its first bytes are gone";
}

// ---------------------------------------------------------------- between wires

struct SentBlock {
  BlockId id;
  Block from;
  Block to;
  std::unique_ptr<Moved> moved = std::make_unique<Moved>();
  bool offered = false;
  bool begun = false;
  bool ended = false;
};

// Node 0 sends to node 1.
class SendingAhead : public Wires {
 protected:
  void offer(SentBlock& block) {
    wire(0).send_eager(block.id, block.from, SpId{1});
    block.offered = true;
  }
  void pull(SentBlock& block) {
    wire(1).pull(SpId{0}, block.from, block.to, *block.moved, {.eager = &block.id, .others = nullptr});
    block.begun = true;
  }
  // As engines do when a block is there: the destination's wants no more of it, then the source's hears of that.
  void end(SentBlock& block) {
    wire(1).forget_eager(block.id, SpId{0});
    wire(0).withdraw_eager(block.id);
    block.ended = true;
  }
  void expect_arrived(const SentBlock& block) {
    ASSERT_EQ(block.moved->status(), MoveStatus::ok);
    const auto& source = memory(0).range(block.from.memory.region);
    const auto& destination = memory(1).range(block.to.memory.region);
    EXPECT_EQ(std::memcmp(source.data() + (block.from.memory.address - FakeMemory::kBase),
                          destination.data() + (block.to.memory.address - FakeMemory::kBase), block.from.bytes),
              0)
        << block.from.bytes << " bytes";
  }
  static SentBlock make(std::uint64_t sequence, std::uint64_t offset, std::uint64_t bytes,
                        RegionId region = kPrivateRegion) {
    SentBlock made;
    made.id = block_id(sequence);
    made.from = block(0, region, offset, bytes);
    made.to = block(1, region, offset, bytes);
    return made;
  }
};

// Posts, moves and ends in random order, each block at most once eagerly, over a room that holds few of them.
TEST_P(SendingAhead, InWhateverOrderThingsHappen) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    wires_.clear();
    memories_.clear();
    addresses_.clear();
    std::mt19937_64 random(seed);
    WireOptions options = seed % 2 == 0 ? WireOptions{} : tiny_options();
    options.eager_bytes_of_peer = seed % 3 == 0 ? 5000 : 200'000;
    start(2, options);
    for (const RegionId region : kRegions) fill(memory(0).range(region), seed);
    std::vector<SentBlock> blocks;
    for (std::uint64_t i = 0, at = 0; i < 250; ++i) {
      const std::uint64_t bytes = 1 + (random() % 3 == 0 ? random() % 150'000 : random() % 6000);
      blocks.push_back(make(i, at, bytes, kRegions[random() % 2]));
      at += bytes;
    }
    // Some are posted late, so that several are on their way; some are never sent eagerly.
    std::size_t begun = 0;
    std::size_t offered = 0;
    const auto all_ended = [&] { return std::ranges::all_of(blocks, &SentBlock::ended); };
    ASSERT_TRUE(run_until([&] {
      if (offered < blocks.size() && offered < begun + 20) {
        if (random() % 4 != 0) offer(blocks[offered]);
        ++offered;
      }
      if (begun < offered && random() % 2 == 0) pull(blocks[begun++]);
      for (SentBlock& block : blocks) {
        if (block.begun && !block.ended && block.moved->ended()) end(block);
      }
      return all_ended();
    }));
    for (const SentBlock& block : blocks) expect_arrived(block);
    EXPECT_TRUE(
        run_until([&] { return wire(0).traffic().under_way_bytes == 0 && wire(1).traffic().under_way_bytes == 0; }));
    EXPECT_EQ(wire(1).moves_in_flight(), 0U);
    EXPECT_FALSE(wire(0).failure());
    EXPECT_FALSE(wire(1).failure());
  }
}

// Else the one that comes later waits for the whole block of the one before it.
TEST_P(SendingAhead, PeersGetTheirPartsInTurn) {
  if (GetParam()) GTEST_SKIP() << "where the network moves memory only small blocks go eagerly, as a whole";
  constexpr std::uint64_t kParts = 4;
  const WireOptions options;
  const std::uint64_t bytes = kParts * options.copied_chunk_bytes;
  start(3, options);
  wire(0).send_eager(block_id(1), block(0, kPrivateRegion, 0, bytes), SpId{1});
  wire(0).send_eager(block_id(2), block(0, kPrivateRegion, bytes, bytes), SpId{2});
  ASSERT_TRUE(
      run_until([&] { return wire(1).traffic().moved_bytes == bytes && wire(2).traffic().moved_bytes == bytes; }));
  std::vector<std::uint64_t> in_turn;
  for (std::uint64_t offset = 0; offset < bytes; offset += options.copied_chunk_bytes) {
    in_turn.insert(in_turn.end(), {offset, bytes + offset});
  }
  EXPECT_EQ(memory(0).reads(), in_turn);
}

TEST_P(SendingAhead, EachByteIsCountedOnce) {
  start(2);
  std::uint64_t all_bytes = 0;
  for (const std::uint64_t bytes : {100U, 4096U, 16U << 10, 100'000U}) {
    if (GetParam() && bytes > 4096) break;
    SentBlock block = make(bytes, 0, bytes);
    offer(block);
    all_bytes += bytes;
    ASSERT_TRUE(run_until([&] { return wire(1).traffic().moved_bytes >= all_bytes; }));
    pull(block);
    ASSERT_TRUE(run_until([&] { return block.moved->ended(); }));
    expect_arrived(block);
    end(block);
    EXPECT_EQ(wire(1).traffic().moved_bytes, all_bytes);
  }
}

// A block that is never moved does not hinder later ones, and its staging memory is freed.
TEST_P(SendingAhead, WhatNobodyMovesIsForgotten) {
  WireOptions options;
  options.eager_bytes_of_peer = 70'000;
  start(2, options);
  fill(memory(0).range(kPrivateRegion), 5);
  for (std::uint64_t i = 0; i < 20; ++i) {
    SentBlock unwanted = make(i, 0, i % 2 == 0 ? 3000 : 60'000);
    offer(unwanted);
    if (i % 3 != 0) run_for(std::chrono::milliseconds(2));
    end(unwanted);
    SentBlock wanted = make(1000 + i, i * 1000, 900);
    offer(wanted);
    pull(wanted);
    ASSERT_TRUE(run_until([&] { return wanted.moved->ended(); }));
    expect_arrived(wanted);
    end(wanted);
  }
  EXPECT_TRUE(
      run_until([&] { return wire(1).traffic().under_way_bytes == 0 && wire(0).traffic().under_way_bytes == 0; }));
}

TEST_P(SendingAhead, NothingOfItIsReadAfterItWasWithdrawn) {
  start(2);
  for (const std::uint64_t bytes : {20'000U, 200'000U}) {
    fill(memory(0).range(kPrivateRegion), bytes);
    SentBlock block = make(bytes, 0, bytes);
    offer(block);
    wire(0).withdraw_eager(block.id);  // before any chunk has gone
    fill(memory(0).range(kPrivateRegion), bytes + 1);
    run_for(std::chrono::milliseconds(20));
    pull(block);
    ASSERT_TRUE(run_until([&] { return block.moved->ended(); }));
    expect_arrived(block);  // with the later bytes
  }
}

TEST_P(SendingAhead, AFaultAtTheSourceIsTheMoves) {
  start(2);
  for (const std::uint64_t bytes : {100U, 10'000U, 100'000U}) {
    SentBlock block = make(bytes, kMemoryBytes - 50, bytes);
    block.to.memory.address = FakeMemory::kBase;
    offer(block);
    if (bytes == 100) run_for(std::chrono::milliseconds(5));
    pull(block);
    ASSERT_TRUE(run_until([&] { return block.moved->ended(); }));
    EXPECT_EQ(block.moved->status(), MoveStatus::memory_fault);
    end(block);
  }
  expect_works(1, 0);
}

TEST_P(SendingAhead, AFaultAtTheDestinationIsTheMoves) {
  start(2);
  for (const std::uint64_t bytes : {100U, 10'000U, 100'000U, 600'000U}) {
    SentBlock block = make(bytes, 0, bytes);
    block.to.memory.address = FakeMemory::kBase + kMemoryBytes - 50;
    offer(block);
    if (bytes == 100'000) run_for(std::chrono::milliseconds(20));
    pull(block);
    ASSERT_TRUE(run_until([&] { return block.moved->ended(); }));
    EXPECT_EQ(block.moved->status(), MoveStatus::memory_fault);
    end(block);
  }
  EXPECT_TRUE(run_until([&] { return wire(1).traffic().under_way_bytes == 0; }));
  expect_works(1, 0);
}

TEST_P(SendingAhead, AMoveOfLessThanWhatComesEnds) {
  start(2);
  fill(memory(0).range(kPrivateRegion), 9);
  for (const std::uint64_t bytes : {3000U, 20'000U, 150'000U}) {
    SentBlock block = make(bytes, 0, bytes);
    offer(block);
    block.from.bytes = block.to.bytes = bytes / 3;
    pull(block);
    ASSERT_TRUE(run_until([&] { return block.moved->ended(); }));
    expect_arrived(block);
    EXPECT_EQ(memory(1).range(kPrivateRegion)[block.to.bytes], std::byte{0}) << "written past the end";
    end(block);
  }
}

TEST_P(SendingAhead, CancelledMovesWriteNothing) {
  start(2);
  fill(memory(0).range(kPrivateRegion), 11);
  for (std::uint64_t i = 0; i < 20; ++i) {
    SentBlock block = make(i, 1000, 250'000);
    offer(block);
    for (std::uint64_t turn = 0; turn < i; ++turn) progress_all();
    pull(block);
    if (i % 2 == 0) progress_all();
    const bool ended = block.moved->ended();
    wire(1).cancel(*block.moved);
    auto& here = memory(1).range(kPrivateRegion);
    std::ranges::fill(here, std::byte{0});
    run_for(std::chrono::milliseconds(3));
    EXPECT_EQ(block.moved->ended(), ended);
    EXPECT_TRUE(std::ranges::all_of(here, [](std::byte each) { return each == std::byte{0}; }));
    end(block);
  }
  EXPECT_TRUE(run_until([&] { return wire(1).traffic().under_way_bytes == 0; }));
  expect_works(1, 0);
}

TEST_P(SendingAhead, APeerThatLeavesEndsMovesThatWaitForWhatItSends) {
  start(2);
  expect_works(1, 0);
  SentBlock block = make(0, 0, 250'000);
  offer(block);
  (void)wire(0).progress();
  ASSERT_TRUE(run_until([&] {
    (void)wire(1).progress();
    return wire(1).traffic().under_way_bytes != 0 || GetParam();
  }));
  pull(block);
  wire(0).say_goodbye();
  ASSERT_TRUE(run_until([&] { return block.moved->ended(); }));
}

INSTANTIATE_TEST_SUITE_P(Networks, SendingAhead, kNetworks, network_name);

}  // namespace
}  // namespace outrigger::testing
