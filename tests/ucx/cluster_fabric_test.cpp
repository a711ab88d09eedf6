// Moves within the node go through the node's fabric, other moves through the wire.
#include "fabric/ucx/cluster_fabric.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "reduce/reduce.hpp"
#include "wires.hpp"

namespace outrigger::testing {
namespace {

// Notes what it is asked for.
class NodeFabric final : public fabric::BlockMover, public fabric::PeerMessenger {
 public:
  void move(const Block& from, const Block& to, const BlockId* /*name*/,
            fabric::MoveCompletion& /*completion*/) override {
    asked.push_back("move " + std::to_string(from.memory.owner.value()) + std::to_string(to.memory.owner.value()));
  }
  void reduce(const Reduction& /*reduction*/, std::span<const Block> operands, std::span<const BlockId> /*names*/,
              const Block& into, fabric::MoveCompletion& /*completion*/) override {
    std::string owners;
    for (const Block& operand : operands) owners += std::to_string(operand.memory.owner.value());
    asked.push_back("reduce " + owners + std::to_string(into.memory.owner.value()));
  }
  void cancel(fabric::MoveCompletion& /*completion*/) override { asked.emplace_back("cancel"); }
  void send(SpId to, std::span<const std::byte> /*message*/) override {
    asked.push_back("send " + std::to_string(to.value()));
  }
  void send_eager(const BlockId& /*name*/, const Block& /*from*/, SpId /*reader*/) override {}
  void withdraw_eager(const BlockId& /*name*/) override {}
  void forget_eager(const BlockId& /*name*/, SpId /*source*/) override {}
  std::vector<std::string> take() { return std::exchange(asked, {}); }

 private:
  std::vector<std::string> asked;
};

using Asked = std::vector<std::string>;

constexpr Reduction kXor{ReduceOperation::bxor, ElementType::byte};

// Two nodes of two service processes with a rank each; service process 3 is this one.
class ClusterFabrics : public Wires {
 protected:
  void SetUp() override {
    open(4);
    std::vector<std::byte> descriptors;
    for (std::uint32_t node = 0; node < 2; ++node) {
      NodeDescriptor descriptor;
      descriptor.name = std::string("n").append(std::to_string(node));
      descriptor.secret.fill(5);
      descriptor.addresses = {addresses_[2 * node], addresses_[2 * node + 1]};
      descriptor.ranks = {RankAssignment{WorldRank{2 * node}, 0}, RankAssignment{WorldRank{2 * node + 1}, 1}};
      encode_descriptor(descriptor, descriptors);
    }
    job_map_ = std::move(decode_job_map(descriptors, 4)).value();
    for (std::uint32_t sp = 0; sp < 4; ++sp) ASSERT_TRUE(wire(sp).introduce(job_map_, SpId{sp}));
    cluster_.emplace(node_, node_, wire(3), job_map_, SpId{3});
  }
  void reduce(const Block& left, const Block& right, const Block& into, Moved& moved) {
    const std::array operands{left, right};
    cluster_->reduce(kXor, operands, {}, into, moved);
  }

  NodeFabric node_;
  std::optional<fabric::ucx::ClusterFabric> cluster_;
};

TEST_P(ClusterFabrics, MovesGoWhereTheirRanksAre) {
  Moved moved;
  cluster_->move(block(2, kPrivateRegion, 0, 10), block(3, kPrivateRegion, 0, 10), nullptr, moved);
  cluster_->move(block(3, kPrivateRegion, 0, 10), block(3, kPrivateRegion, 20, 10), nullptr, moved);
  EXPECT_EQ(node_.take(), (Asked{"move 23", "move 33"}));
  EXPECT_EQ(wire(3).moves_in_flight(), 0U);

  fill(memory(1).range(kPrivateRegion), 1);
  Moved pulled;
  cluster_->move(block(1, kPrivateRegion, 0, 10), block(3, kPrivateRegion, 0, 10), nullptr, pulled);
  ASSERT_TRUE(run_until([&] { return pulled.ended(); }));
  EXPECT_EQ(memory(3).range(kPrivateRegion)[9], pattern(9, 1));
  Moved pushed;
  cluster_->move(block(3, kPrivateRegion, 0, 10), block(0, kPrivateRegion, 0, 10), nullptr, pushed);
  ASSERT_TRUE(run_until([&] { return pushed.ended(); }));
  EXPECT_EQ(memory(0).range(kPrivateRegion)[9], pattern(9, 1));
  EXPECT_TRUE(node_.take().empty());
}

TEST_P(ClusterFabrics, CancelReachesBoth) {
  Moved moved;
  cluster_->move(block(1, kPrivateRegion, 0, 10), block(3, kPrivateRegion, 0, 10), nullptr, moved);
  cluster_->cancel(moved);
  EXPECT_EQ(node_.take(), Asked{"cancel"});
  run_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(moved.ended());
}

TEST_P(ClusterFabrics, WhatIsOnTheNodeIsReducedThere) {
  Moved moved;
  const Block into = block(3, kPrivateRegion, 20, 10);
  reduce(block(2, kPrivateRegion, 0, 10), block(3, kPrivateRegion, 0, 10), into, moved);
  EXPECT_EQ(node_.take(), Asked{"reduce 233"});
  EXPECT_EQ(wire(3).memory().buffers(), 0U);
}

// One operand of another node or both, mapped or private, short and in many chunks; also into the left one.
TEST_P(ClusterFabrics, BlocksOfOtherNodesAreBroughtHereAndReduced) {
  for (const RegionId region : kRegions) {
    for (const std::uint64_t bytes : {10U, 700'000U}) {
      struct Try {
        std::uint32_t left, right;
        std::uint64_t left_offset;
      };
      for (const Try& each : {Try{1, 3, 0}, Try{3, 1, 0}, Try{0, 1, 0}, Try{3, 0, 1'000'000}}) {
        for (std::uint32_t rank = 0; rank < 4; ++rank) fill(memory(rank).range(region), rank);
        const Block into = block(3, region, 1'000'000, bytes);
        Moved moved;
        reduce(block(each.left, region, each.left_offset, bytes), block(each.right, region, 5, bytes), into, moved);
        ASSERT_TRUE(run_until([&] { return moved.ended(); }));
        EXPECT_EQ(moved.status(), fabric::MoveStatus::ok);
        for (std::uint64_t i = 0; i < bytes; ++i) {
          const std::byte wanted = pattern(each.left_offset + i, each.left) ^ pattern(5 + i, each.right);
          ASSERT_EQ(memory(3).range(region)[1'000'000 + i], wanted) << i;
        }
        EXPECT_EQ(memory(3).range(region)[1'000'000 + bytes], pattern(1'000'000 + bytes, 3)) << "behind the block";
        EXPECT_EQ(wire(3).memory().buffers(), 0U);
      }
    }
  }
  EXPECT_TRUE(node_.take().empty());
}

// The owners of successive operands: on this node and on the other one.
constexpr std::array<std::uint32_t, 4> kOwners{3, 1, 0, 1};

// More operands than a batch of pulls has, from both sides, in their order: sums of floats show it.
TEST_P(ClusterFabrics, ManyOperandsInBatchesAndInTheirOrder) {
  constexpr Reduction kSum{ReduceOperation::sum, ElementType::float32};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const std::span<std::byte> all = memory(rank).range(kPrivateRegion);
    for (std::size_t i = 0; i + sizeof(float) <= all.size(); i += sizeof(float)) {
      const float value = static_cast<float>(i * 31 % 1009) * (0.37F + static_cast<float>(rank));
      std::memcpy(&all[i], &value, sizeof(value));
    }
  }
  for (const std::uint64_t bytes : {std::uint64_t{16}, std::uint64_t{200'000}}) {
    std::vector<Block> operands;
    for (std::uint32_t i = 0; i < 37; ++i) operands.push_back(block(kOwners[i % 4], kPrivateRegion, i * 8, bytes));
    std::vector<std::byte> wanted(bytes);
    const auto bytes_of = [&](std::size_t i) {
      return std::span(memory(operands[i].memory.owner.value()).range(kPrivateRegion)).subspan(i * 8, bytes);
    };
    reduce::apply(kSum, bytes_of(0), bytes_of(1), wanted);
    for (std::size_t i = 2; i < operands.size(); ++i) reduce::apply(kSum, wanted, bytes_of(i), wanted);
    Moved moved;
    cluster_->reduce(kSum, operands, {}, block(3, kPrivateRegion, 1'000'000, bytes), moved);
    ASSERT_TRUE(run_until([&] { return moved.ended(); }));
    EXPECT_EQ(moved.status(), fabric::MoveStatus::ok);
    const auto found = std::span(memory(3).range(kPrivateRegion)).subspan(1'000'000, bytes);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), found.begin()));
    EXPECT_EQ(wire(3).memory().buffers(), 0U);
  }
}

// Where the order makes no difference each service process sends one block.
TEST_P(ClusterFabrics, OperandsOfAServiceProcessAreReducedThere) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) fill(memory(rank).range(kPrivateRegion), rank);
  for (const std::uint64_t bytes : {std::uint64_t{10}, std::uint64_t{700'000}}) {
    std::vector<Block> operands;
    for (std::uint32_t i = 0; i < 37; ++i) operands.push_back(block(kOwners[i % 4], kPrivateRegion, i, bytes));
    const std::uint64_t moved_before = wire(3).traffic().moved_bytes;
    Moved moved;
    cluster_->reduce(kXor, operands, {}, block(3, kPrivateRegion, 1'000'000, bytes), moved);
    ASSERT_TRUE(run_until([&] { return moved.ended(); }));
    EXPECT_EQ(moved.status(), fabric::MoveStatus::ok);
    EXPECT_EQ(wire(3).traffic().moved_bytes - moved_before, 2 * bytes);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      std::byte wanted{};
      for (std::uint32_t o = 0; o < 37; ++o) wanted ^= pattern(o + i, kOwners[o % 4]);
      ASSERT_EQ(memory(3).range(kPrivateRegion)[1'000'000 + i], wanted) << i;
    }
  }
  EXPECT_EQ(wire(3).memory().buffers(), 0U);
  const std::array beyond{block(0, kPrivateRegion, 0, 10), block(0, kPrivateRegion, kMemoryBytes - 5, 10),
                          block(3, kPrivateRegion, 0, 10)};
  Moved failed;
  cluster_->reduce(kXor, beyond, {}, block(3, kPrivateRegion, 20, 10), failed);
  ASSERT_TRUE(run_until([&] { return failed.ended(); }));
  EXPECT_EQ(failed.status(), fabric::MoveStatus::memory_fault);
}

TEST_P(ClusterFabrics, ACancelledReductionWritesNothing) {
  fill(memory(3).range(kPrivateRegion), 3);
  Moved moved;
  reduce(block(0, kPrivateRegion, 0, 700'000), block(1, kPrivateRegion, 0, 700'000),
         block(3, kPrivateRegion, 0, 700'000), moved);
  for (int round = 0; round < 3; ++round) progress_all();
  cluster_->cancel(moved);
  EXPECT_EQ(wire(3).memory().buffers(), 0U);
  run_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(moved.ended());
  EXPECT_EQ(memory(3).range(kPrivateRegion)[0], pattern(0, 3));
}

// A reduction whose first operand is outside of the other node's memory fails and frees its buffers.
TEST_P(ClusterFabrics, AReductionEndsWithItsOperands) {
  Moved moved;
  reduce(block(1, kPrivateRegion, kMemoryBytes - 5, 10), block(3, kPrivateRegion, 0, 10),
         block(3, kPrivateRegion, 20, 10), moved);
  ASSERT_TRUE(run_until([&] { return moved.ended(); }));
  EXPECT_EQ(moved.status(), fabric::MoveStatus::memory_fault);
  EXPECT_EQ(wire(3).memory().buffers(), 0U);
}

// A peer cannot write to what is pulled for a reduction, though it guesses the address.
TEST_P(ClusterFabrics, NoPeerNamesABuffer) {
  const MemoryRef buffer = wire(3).memory().take(100);
  std::memset(reinterpret_cast<void*>(buffer.address), 0x5A, 100);
  Moved pushed;
  wire(0).push(SpId{3}, block(0, kPrivateRegion, 0, 100), Block{buffer, 100}, pushed);
  ASSERT_TRUE(run_until([&] { return pushed.ended(); }));
  EXPECT_NE(pushed.status(), fabric::MoveStatus::ok);
  Moved pulled;
  wire(0).pull(SpId{3}, Block{buffer, 100}, block(0, kPrivateRegion, 0, 100), pulled);
  ASSERT_TRUE(run_until([&] { return pulled.ended(); }));
  EXPECT_NE(pulled.status(), fabric::MoveStatus::ok);
  EXPECT_EQ(*reinterpret_cast<const std::byte*>(buffer.address), std::byte{0x5A});
  wire(3).memory().give_back(buffer);
}

TEST_P(ClusterFabrics, MessagesGoWhereTheirServiceProcessesAre) {
  const std::string text = "text";
  cluster_->send(SpId{2}, std::as_bytes(std::span(text)));
  EXPECT_EQ(node_.take(), Asked{"send 2"});
  for (const std::uint32_t sp : {0U, 1U}) {
    cluster_->send(SpId{sp}, std::as_bytes(std::span(text)));
    std::vector<std::pair<SpId, std::string>> heard;
    ASSERT_TRUE(run_until([&] { return !(heard = messages(sp)).empty(); }));
    EXPECT_EQ(heard[0], std::make_pair(SpId{3}, text));
  }
  EXPECT_TRUE(node_.take().empty());
}

INSTANTIATE_TEST_SUITE_P(Networks, ClusterFabrics, kNetworks, network_name);

}  // namespace
}  // namespace outrigger::testing
