// Reductions within the node: mapped and private memory in every place, in chunks, and what goes wrong.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "fabric/host/host_fabric.hpp"
#include "fabric_fixture.hpp"

namespace outrigger::reduce_test {
namespace {

using fabric::HostFabric;
using fabric::MoveStatus;
using testing::Ended;
using testing::make_rank;
using testing::map_fresh;

constexpr RegionId kShared{2};
constexpr std::uint64_t kSharedBase = 0x1000'0000;
constexpr std::uint64_t kBytes = 1 << 20;
constexpr std::uint64_t kCount = 40001;  // more than a chunk's, and an odd number
constexpr Reduction kSum{ReduceOperation::sum, ElementType::float64};

enum class Where : std::uint8_t { mapped, in_process };

// Ranks 0, 1 and 2 have a mapped region each, and private memory in this process.
class HostReductions : public ::testing::Test {
 protected:
  HostReductions() : private_(3, std::vector<std::byte>(kBytes)) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      fabric_.add_rank(WorldRank{rank}, make_rank(WorldRank{rank}, ::getpid()));
      EXPECT_TRUE(fabric_.rank(WorldRank{rank})->add_region(kShared, kSharedBase, map_fresh(kBytes)));
    }
  }

  [[nodiscard]] Block block(std::uint32_t rank, Where where, std::uint64_t offset, std::uint64_t count = kCount) const {
    const std::uint64_t bytes = count * sizeof(double);
    if (where == Where::mapped) return Block{MemoryRef{WorldRank{rank}, kShared, kSharedBase + offset}, bytes};
    const std::uint64_t base = reinterpret_cast<std::uintptr_t>(private_[rank].data());
    return Block{MemoryRef{WorldRank{rank}, kPrivateRegion, base + offset}, bytes};
  }
  std::byte* bytes(std::uint32_t rank, Where where, std::uint64_t offset) {
    if (where == Where::in_process) return private_[rank].data() + offset;
    return fabric_.rank(WorldRank{rank})->mapped(kShared, kSharedBase, kBytes) + offset;
  }
  void set(std::byte* place, double factor) {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const double value = factor * static_cast<double>(i) / 7;
      std::memcpy(place + i * sizeof(double), &value, sizeof(value));
    }
  }
  static void expect_sum(const std::byte* place, double one, double other) {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      double value = 0;
      std::memcpy(&value, place + i * sizeof(double), sizeof(value));
      ASSERT_EQ(value, one * static_cast<double>(i) / 7 + other * static_cast<double>(i) / 7) << i;
    }
  }
  void reduce(const Block& left, const Block& right, const Block& into, Ended& ended) {
    const std::array operands{left, right};
    fabric_.reduce(kSum, operands, {}, into, ended);
  }
  void finish(Ended& ended) {
    EXPECT_FALSE(ended.ended()) << "ended inside the call that started it";
    EXPECT_EQ(fabric_.moves_in_flight(), 1U);
    EXPECT_FALSE(fabric_.arm());
    for (int i = 0; i < 1000 && !ended.ended(); ++i) (void)fabric_.progress();
    ASSERT_TRUE(ended.ended());
    EXPECT_EQ(fabric_.moves_in_flight(), 0U);
    EXPECT_TRUE(fabric_.arm());
  }

  std::vector<std::vector<std::byte>> private_;
  HostFabric fabric_;
};

TEST_F(HostReductions, WhereverTheThreeAre) {
  for (const Where left : {Where::mapped, Where::in_process}) {
    for (const Where right : {Where::mapped, Where::in_process}) {
      for (const Where into : {Where::mapped, Where::in_process}) {
        set(bytes(0, left, 3), 2);
        set(bytes(1, right, 8), 5);
        std::memset(bytes(2, into, 0), 0x5A, kBytes);
        Ended ended;
        reduce(block(0, left, 3), block(1, right, 8), block(2, into, 16), ended);
        finish(ended);
        EXPECT_EQ(ended.status(), MoveStatus::ok);
        const bool all_mapped = left == Where::mapped && right == Where::mapped && into == Where::mapped;
        EXPECT_EQ(ended.reach(), all_mapped ? Reach::mapped : Reach::cma);
        expect_sum(bytes(2, into, 16), 2, 5);
        EXPECT_EQ(*bytes(2, into, 15), std::byte{0x5A}) << "before the block";
        EXPECT_EQ(*bytes(2, into, 16 + kCount * sizeof(double)), std::byte{0x5A}) << "behind the block";
        expect_sum(bytes(0, left, 3), 2, 0);
      }
    }
  }
}

TEST_F(HostReductions, IntoTheLeftOperand) {
  for (const Where left : {Where::mapped, Where::in_process}) {
    for (const Where right : {Where::mapped, Where::in_process}) {
      set(bytes(0, left, 5), 3);
      set(bytes(1, right, 0), 4);
      Ended ended;
      reduce(block(0, left, 5), block(1, right, 0), block(0, left, 5), ended);
      finish(ended);
      EXPECT_EQ(ended.status(), MoveStatus::ok);
      expect_sum(bytes(0, left, 5), 3, 4);
    }
  }
}

// Floating-point sums show the order: ((0 + 1) + 2) + ... and no other.
TEST_F(HostReductions, ManyOperandsInTheirOrder) {
  constexpr std::size_t kOperands = 41;
  for (const Where into : {Where::mapped, Where::in_process}) {
    for (const Where first : {Where::mapped, Where::in_process}) {
      std::vector<Block> operands;
      std::vector<double> values(kOperands * 6000);
      double value = 1;
      for (double& each : values) each = value = value * 1.37 - static_cast<double>(static_cast<long>(value)) + 0.01;
      // Ranks and kinds of memory alternate, and each operand has its own place.
      for (std::size_t i = 0; i < kOperands; ++i) {
        const std::uint32_t rank = i % 2;
        const Where where = i == 0 ? first : i % 3 == 0 ? Where::mapped : Where::in_process;
        const std::uint64_t offset = i / 2 * 6000 * sizeof(double);
        std::memcpy(bytes(rank, where, offset), &values[i * 6000], 6000 * sizeof(double));
        operands.push_back(block(rank, where, offset, 6000));
      }
      Ended ended;
      fabric_.reduce(kSum, operands, {}, block(2, into, 8, 6000), ended);
      operands.clear();
      finish(ended);
      EXPECT_EQ(ended.status(), MoveStatus::ok);
      for (std::size_t element = 0; element < 6000; ++element) {
        double expected = values[element];
        for (std::size_t i = 1; i < kOperands; ++i) expected += values[i * 6000 + element];
        double found = 0;
        std::memcpy(&found, bytes(2, into, 8) + element * sizeof(double), sizeof(found));
        ASSERT_EQ(found, expected) << element;
      }
    }
  }
}

TEST_F(HostReductions, ManyOperandsIntoTheFirst) {
  for (const Where first : {Where::mapped, Where::in_process}) {
    set(bytes(0, first, 5), 3);
    set(bytes(1, Where::mapped, 0), 4);
    Ended ended;
    const std::array operands{block(0, first, 5), block(1, Where::mapped, 0), block(1, Where::mapped, 0)};
    fabric_.reduce(kSum, operands, {}, block(0, first, 5), ended);
    finish(ended);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      double value = 0;
      std::memcpy(&value, bytes(0, first, 5) + i * sizeof(double), sizeof(value));
      const double first_value = 3 * static_cast<double>(i) / 7;
      const double other_value = 4 * static_cast<double>(i) / 7;
      ASSERT_EQ(value, first_value + other_value + other_value) << i;
    }
  }
}

TEST_F(HostReductions, WhatIsPartlyOutOfBoundsIsNotBegun) {
  const std::uint64_t beyond = kBytes - kCount * sizeof(double) + 8;
  set(bytes(0, Where::mapped, 0), 1);
  std::memset(bytes(2, Where::mapped, 0), 0x5A, kBytes);
  const Block good = block(0, Where::mapped, 0);
  const Block into = block(2, Where::mapped, 0);
  const Block bad = block(1, Where::mapped, beyond);
  struct Try {
    Block left, right, into;
  };
  for (const Try& each : {Try{bad, good, into}, Try{good, bad, into}, Try{good, good, bad}}) {
    Ended ended;
    reduce(each.left, each.right, each.into, ended);
    finish(ended);
    EXPECT_EQ(ended.status(), MoveStatus::memory_fault);
    EXPECT_EQ(*bytes(2, Where::mapped, 0), std::byte{0x5A});
  }
}

TEST_F(HostReductions, ARankThatHasGoneEndsThem) {
  Ended ended;
  reduce(block(0, Where::mapped, 0), block(1, Where::mapped, 0), block(2, Where::mapped, 0), ended);
  fabric_.drop_rank(WorldRank{1});
  finish(ended);
  EXPECT_EQ(ended.status(), MoveStatus::owner_lost);
}

TEST_F(HostReductions, WhatIsCancelledIsLeftAlone) {
  set(bytes(0, Where::mapped, 0), 1);
  set(bytes(1, Where::mapped, 0), 1);
  std::memset(bytes(2, Where::mapped, 0), 0x5A, kBytes);
  Ended ended;
  reduce(block(0, Where::mapped, 0), block(1, Where::mapped, 0), block(2, Where::mapped, 0), ended);
  fabric_.cancel(ended);
  EXPECT_EQ(fabric_.moves_in_flight(), 0U);
  for (int i = 0; i < 10; ++i) (void)fabric_.progress();
  EXPECT_FALSE(ended.ended());
  EXPECT_EQ(*bytes(2, Where::mapped, 0), std::byte{0x5A});
}

// A short reduction behind a long one ends first.
TEST_F(HostReductions, TakeTurns) {
  Ended long_one;
  Ended short_one;
  reduce(block(0, Where::mapped, 0), block(1, Where::mapped, 0), block(2, Where::mapped, 0), long_one);
  reduce(block(0, Where::in_process, 0, 10), block(1, Where::mapped, 0, 10), block(2, Where::in_process, 0, 10),
         short_one);
  (void)fabric_.progress();
  EXPECT_TRUE(short_one.ended());
  EXPECT_FALSE(long_one.ended());
  for (int i = 0; i < 1000 && !long_one.ended(); ++i) (void)fabric_.progress();
  EXPECT_TRUE(long_one.ended());
}

}  // namespace
}  // namespace outrigger::reduce_test
