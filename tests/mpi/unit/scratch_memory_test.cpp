#include "mpi/intranode/scratch_memory.hpp"

#include <gtest/gtest.h>

#include <array>

namespace outrigger::mpi {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(ScratchMemory, IsKeptForTheNextCall) {
  ScratchMemory memory;
  std::byte* const first = memory.take(8 * kMiB);
  memory.give_back();
  EXPECT_EQ(memory.take(8 * kMiB), first);
  EXPECT_EQ(memory.take(1), first);
}

TEST(ScratchMemory, HasALimitForAll) {
  constexpr std::size_t kEach = ScratchMemory::kKeptByAll / 4;
  std::array<ScratchMemory, 5> all;
  for (ScratchMemory& memory : all) {
    static_cast<void>(memory.take(kEach));
    memory.give_back();
  }
  EXPECT_EQ(all[3].bytes(), kEach);
  EXPECT_EQ(all[4].bytes(), 0U);
  static_cast<void>(all[0].take(2 * kEach));  // gives its part of the limit back
  static_cast<void>(all[4].take(kEach));
  all[4].give_back();
  EXPECT_EQ(all[4].bytes(), kEach);
}

TEST(ScratchMemory, IsNotKeptAboveTheLimit) {
  ScratchMemory memory;
  static_cast<void>(memory.take(ScratchMemory::kKeptByAll + 1));
  EXPECT_EQ(memory.bytes(), ScratchMemory::kKeptByAll + 1);
  memory.give_back();
  EXPECT_EQ(memory.bytes(), 0U);
}

TEST(ScratchMemory, KeepsLittleWithoutALimit) {
  std::array<ScratchMemory, 80> all;
  for (ScratchMemory& memory : all) {
    static_cast<void>(memory.take(ScratchMemory::kAlwaysKept));
    memory.give_back();
    EXPECT_EQ(memory.bytes(), ScratchMemory::kAlwaysKept);
  }
}

}  // namespace
}  // namespace outrigger::mpi
