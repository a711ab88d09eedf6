// Reductions of memory that is read and written in steps: each operand is reduced once, in order, in whatever order
// reads complete. They also end if memory is lost, or if they are cancelled.
#include "fabric/dpu/rank_reductions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fabric/ucx/remote_reduction.hpp"
#include "reduce/reduce.hpp"

namespace outrigger::fabric::dpu {
namespace {

// Ranks with so many bytes each, numbers that round when they are added, at address 0. Reads and writes end in any
// order, when the test says so.
class SlowMemory final : public NodeMemory {
 public:
  SlowMemory(std::uint32_t ranks, std::uint64_t bytes, unsigned seed) : random_(seed), memory_(ranks) {
    for (auto& each : memory_) {
      each.resize(bytes);
      std::vector<float> numbers(bytes / sizeof(float));
      std::ranges::generate(numbers, [this] { return static_cast<float>(random_() % 10'000) / 7.0F; });
      std::ranges::copy(std::as_bytes(std::span(numbers)), each.begin());
    }
  }

  View view(const MemoryRef& memory, std::uint64_t /*bytes*/) override {
    return View{memory.owner.value() < memory_.size() ? MoveStatus::ok : MoveStatus::owner_lost, nullptr, nullptr};
  }
  MoveStatus read(const MemoryRef& /*from*/, std::span<std::byte> /*to*/) override { std::abort(); }
  MoveStatus write(const MemoryRef& /*to*/, std::span<const std::byte> /*from*/) override { std::abort(); }
  bool is_remote() const override { return true; }
  void start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done) override {
    ++reads;
    most_under_way = std::max(most_under_way, under_way_.size() + 1);
    under_way_.emplace_back([this, from, to, done = std::move(done)] {
      const std::span<const std::byte> bytes = range(from, to.size());
      if (bytes.empty()) return done(MoveStatus::memory_fault);
      std::ranges::copy(bytes, to.begin());
      done(MoveStatus::ok);
    });
  }
  void start_write(const MemoryRef& to, std::span<const std::byte> from, Accessed done) override {
    under_way_.emplace_back([this, to, from, done = std::move(done)] {
      const std::span<std::byte> bytes = range(to, from.size());
      if (bytes.empty()) return done(MoveStatus::memory_fault);
      std::ranges::copy(from, bytes.begin());
      done(MoveStatus::ok);
    });
  }
  bool progress_memory() override {
    if (under_way_.empty()) return false;
    const std::size_t which = random_() % under_way_.size();
    const std::function<void()> next = std::move(under_way_[which]);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(which));
    next();
    return true;
  }

  std::vector<std::byte>& of(std::uint32_t rank) { return memory_[rank]; }
  [[nodiscard]] bool idle() const { return under_way_.empty(); }
  std::size_t reads = 0;
  std::size_t most_under_way = 0;

 private:
  std::span<std::byte> range(const MemoryRef& memory, std::uint64_t bytes) {
    std::vector<std::byte>& all = memory_[memory.owner.value()];
    if (memory.address > all.size() || bytes > all.size() - memory.address) return {};
    return std::span(all).subspan(memory.address, bytes);
  }
  std::minstd_rand random_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::function<void()>> under_way_;
};

class Ended final : public MoveCompletion {
 public:
  void moved(const MoveOutcome& outcome) override {
    EXPECT_FALSE(outcome_) << "ends once";
    outcome_ = outcome;
  }
  [[nodiscard]] bool yet() const { return outcome_.has_value(); }
  [[nodiscard]] MoveStatus status() const { return outcome_->status; }

 private:
  std::optional<MoveOutcome> outcome_;
};

// Floating-point sums show a wrong order.
constexpr Reduction kSum{ReduceOperation::sum, ElementType::float32};
constexpr Reduction kXor{ReduceOperation::bxor, ElementType::uint32};

MemoryRef of_rank(std::uint32_t rank, std::uint64_t address = 0) {
  return {WorldRank{rank}, kPrivateRegion, address};
}

std::vector<std::byte> in_order(const Reduction& reduction, SlowMemory& memory, std::uint32_t ranks,
                                std::uint64_t bytes) {
  std::vector<std::byte> result(memory.of(0).begin(), memory.of(0).begin() + static_cast<std::ptrdiff_t>(bytes));
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    reduce::apply(reduction, result, std::span(memory.of(rank)).first(bytes), result);
  }
  return result;
}

void run(SlowMemory& memory, RankReductions& reductions, const Ended& ended) {
  while (!ended.yet()) {
    const bool worked = memory.progress_memory();
    ASSERT_TRUE(reductions.deliver() || worked) << "nothing is under way, and it has not ended";
  }
}

struct Size {
  std::uint32_t ranks;
  std::uint64_t bytes;
};
class RankReductionsTest : public testing::TestWithParam<Size> {};

TEST_P(RankReductionsTest, OperandsAreReadOnceAndReducedInTheirOrder) {
  const auto [ranks, bytes] = GetParam();
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SlowMemory memory(ranks + 1, bytes + 8, seed);
    RankReductions reductions(memory);
    for (const Reduction& reduction : {kXor, kSum}) {
      const std::vector<std::byte> wanted = in_order(reduction, memory, ranks, bytes);
      const std::vector<std::byte> behind(memory.of(ranks).end() - 8, memory.of(ranks).end());
      ReduceRanges ranges{reduction, {}, of_rank(ranks)};
      for (std::uint32_t rank = 0; rank < ranks; ++rank) ranges.operands.push_back(of_rank(rank));
      Ended ended;
      reductions.begin(ranges, bytes, ended);
      ASSERT_FALSE(ended.yet());
      run(memory, reductions, ended);
      EXPECT_EQ(ended.status(), MoveStatus::ok);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), memory.of(ranks).begin()));
      EXPECT_TRUE(std::equal(behind.begin(), behind.end(), memory.of(ranks).end() - 8)) << "behind the result";
      EXPECT_EQ(reductions.size(), 0U);
    }
  }
}

std::string name_of_size(const testing::TestParamInfo<Size>& size) {
  return std::to_string(size.param.ranks) + "ranks" + std::to_string(size.param.bytes) + "bytes";
}
INSTANTIATE_TEST_SUITE_P(Sizes, RankReductionsTest,
                         testing::Values(Size{2, 4}, Size{2, 1U << 20}, Size{3, 300'000}, Size{8, 1'000'000},
                                         Size{37, 65'536}, Size{600, 4'096}),
                         name_of_size);

TEST(RankReductions, MayGoToTheFirstOperand) {
  SlowMemory memory(3, 500'000, 7);
  RankReductions reductions(memory);
  const std::vector<std::byte> wanted = in_order(kXor, memory, 3, 500'000);
  Ended ended;
  reductions.begin({kXor, {of_rank(0), of_rank(1), of_rank(2)}, of_rank(0)}, 500'000, ended);
  run(memory, reductions, ended);
  EXPECT_EQ(wanted, memory.of(0));
}

// As of what other nodes have sent.
TEST(RankReductions, OperandsOfThisProcessAreTakenWhereTheyAre) {
  constexpr std::uint64_t kVectorBytes = 200'000;
  for (int place = 0; place < 3; ++place) {
    SlowMemory memory(4, kVectorBytes, 9);
    RankReductions reductions(memory);
    const std::vector<std::byte> wanted = in_order(kSum, memory, 3, kVectorBytes);
    std::vector<MemoryRef> operands{of_rank(0), of_rank(1), of_rank(2)};
    std::vector<std::byte> here = memory.of(static_cast<std::uint32_t>(place));
    operands[static_cast<std::size_t>(place)] = {kOwnMemory, kPrivateRegion,
                                                 reinterpret_cast<std::uintptr_t>(here.data())};
    Ended ended;
    reductions.begin({kSum, operands, of_rank(3)}, kVectorBytes, ended);
    run(memory, reductions, ended);
    EXPECT_EQ(wanted, memory.of(3)) << place;
  }
}

TEST(RankReductions, WhatCannotBeReadOrWrittenEndsOnceEverythingHasComeToRest) {
  for (const MemoryRef& bad : {of_rank(1, 500'000), of_rank(9)}) {
    SlowMemory memory(3, 500'000, 11);
    RankReductions reductions(memory);
    Ended ended;
    reductions.begin({kXor, {of_rank(0), bad, of_rank(2)}, of_rank(0)}, 400'000, ended);
    run(memory, reductions, ended);
    EXPECT_NE(ended.status(), MoveStatus::ok);
    EXPECT_TRUE(memory.idle());
  }
  SlowMemory memory(3, 500'000, 11);
  RankReductions reductions(memory);
  Ended ended;
  reductions.begin({kXor, {of_rank(0), of_rank(1)}, of_rank(2, 500'000)}, 400'000, ended);
  run(memory, reductions, ended);
  EXPECT_EQ(ended.status(), MoveStatus::memory_fault);
  EXPECT_TRUE(memory.idle());
}

TEST(RankReductions, NothingIsTouchedAfterACancel) {
  for (int steps = 0; steps < 40; ++steps) {
    SlowMemory memory(4, 1'000'000, static_cast<unsigned>(steps));
    RankReductions reductions(memory);
    Ended ended;
    reductions.begin({kXor, {of_rank(0), of_rank(1), of_rank(2)}, of_rank(3)}, 1'000'000, ended);
    for (int i = 0; i < steps; ++i) (void)memory.progress_memory();
    reductions.cancel(ended);
    EXPECT_TRUE(memory.idle());
    EXPECT_EQ(reductions.size(), 0U);
    (void)reductions.deliver();
    EXPECT_FALSE(ended.yet());
  }
}

TEST(RankReductions, FewAreUnderWayAtATime) {
  SlowMemory memory(8, 4U << 20, 13);
  RankReductions reductions(memory);
  ReduceRanges ranges{kXor, {}, of_rank(0)};
  for (std::uint32_t rank = 0; rank < 8; ++rank) ranges.operands.push_back(of_rank(rank));
  Ended ended;
  reductions.begin(ranges, 4U << 20, ended);
  run(memory, reductions, ended);
  EXPECT_LE(memory.most_under_way, 8U * RankReductions::kChunks);
}

// One that has no room for all operands at once reads some, reduces them, and reads others.
TEST(RemoteReduction, AnyRoomWillDo) {
  constexpr std::uint64_t kVectorBytes = 1'024;
  for (std::uint64_t places = 2; places <= 9; ++places) {
    SlowMemory memory(9, kVectorBytes, static_cast<unsigned>(places));
    std::vector<MemoryRef> operands;
    for (std::uint32_t rank = 0; rank < 9; ++rank) operands.push_back(of_rank(rank));
    std::vector<std::byte> room(places * kVectorBytes);
    std::optional<MoveStatus> status;
    ucx::RemoteReduction::start(memory, kSum, operands, room, kVectorBytes, [&](MoveStatus end) { status = end; });
    while (!status) ASSERT_TRUE(memory.progress_memory());
    EXPECT_EQ(*status, MoveStatus::ok);
    EXPECT_EQ(memory.reads, 9U);
    const std::vector<std::byte> wanted = in_order(kSum, memory, 9, kVectorBytes);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), room.begin())) << places;
  }
}

}  // namespace
}  // namespace outrigger::fabric::dpu
