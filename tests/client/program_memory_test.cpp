// Memory of MPI_Alloc_mem, without a client.
#include "client/memory/program_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace outrigger::client {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

std::size_t resident_pages(const void* memory, std::uint64_t bytes) {
  std::vector<unsigned char> pages(bytes / heap::kPageBytes);
  EXPECT_EQ(::mincore(const_cast<void*>(memory), bytes, pages.data()), 0);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
}

class ProgramMemoryTest : public ::testing::Test {
 protected:
  ~ProgramMemoryTest() override { allocate_and_free(2 * ProgramMemory::kMostKept); }  // leaves no kept ranges
  void allocate_and_free(std::uint64_t bytes) {
    void* memory = memory_.allocate(bytes);
    EXPECT_TRUE(memory_.release(memory));
  }
  ProgramMemory& memory_ = ProgramMemory::of_process();
};

TEST_F(ProgramMemoryTest, HasNoPagesBeforeItIsTouched) {
  auto* memory = static_cast<char*>(memory_.allocate(1024 * kMiB));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(resident_pages(memory, 1024 * kMiB), 0U);
  memory[512 * kMiB] = 1;
  EXPECT_EQ(resident_pages(memory, 1024 * kMiB), 1U);
  EXPECT_TRUE(memory_.release(memory));
}

TEST_F(ProgramMemoryTest, WhatIsFreedIsUsedAgain) {
  void* first = memory_.allocate(kMiB);
  std::memset(first, 7, kMiB);
  EXPECT_TRUE(memory_.release(first));
  for (int i = 0; i < 1000; ++i) {
    void* again = memory_.allocate(kMiB);
    EXPECT_EQ(again, first);
    EXPECT_EQ(resident_pages(again, kMiB), kMiB / heap::kPageBytes);
    EXPECT_TRUE(memory_.release(again));
  }
}

TEST_F(ProgramMemoryTest, KeepsNoMoreThanItsBound) {
  std::vector<void*> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(memory_.allocate(4 * kMiB));
    std::memset(all.back(), 7, 4 * kMiB);
  }
  std::size_t most = 0;
  for (void* memory : all) {
    EXPECT_TRUE(memory_.release(memory));
    EXPECT_LE(memory_.kept_bytes(), ProgramMemory::kMostKept);
    most = std::max<std::size_t>(most, memory_.kept_bytes());
  }
  EXPECT_EQ(most, ProgramMemory::kMostKept);
  std::size_t resident = 0;
  for (void* memory : all) resident += resident_pages(memory, 4 * kMiB) * heap::kPageBytes;
  EXPECT_EQ(resident, memory_.kept_bytes());
}

TEST_F(ProgramMemoryTest, LargeOnesGiveTheirPagesBackAtOnce) {
  auto* memory = static_cast<char*>(memory_.allocate(2 * ProgramMemory::kMostKept));
  memory[0] = 1;
  EXPECT_TRUE(memory_.release(memory));
  EXPECT_EQ(memory_.kept_bytes(), 0U);
  EXPECT_EQ(resident_pages(memory, 2 * ProgramMemory::kMostKept), 0U);
}

TEST_F(ProgramMemoryTest, RandomUseNeverOverlaps) {
  struct Piece {
    std::uint64_t bytes;
    unsigned char value;
  };
  std::mt19937_64 random(11);
  std::map<unsigned char*, Piece> pieces;
  for (int step = 0; step < 4000; ++step) {
    if (!pieces.empty() && random() % 2 == 0) {
      const auto [memory, piece] = *std::next(pieces.begin(), static_cast<std::ptrdiff_t>(random() % pieces.size()));
      ASSERT_EQ(memory[0], piece.value);
      ASSERT_EQ(memory[piece.bytes - 1], piece.value);
      ASSERT_TRUE(memory_.release(memory));
      pieces.erase(memory);
      continue;
    }
    const std::uint64_t bytes = 1 + random() % (std::uint64_t{1} << (10 + random() % 16));
    auto* memory = static_cast<unsigned char*>(memory_.allocate(bytes));
    ASSERT_NE(memory, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % heap::kPageBytes, 0U);
    const auto next = pieces.lower_bound(memory);
    ASSERT_TRUE(next == pieces.end() || memory + bytes <= next->first);
    ASSERT_TRUE(next == pieces.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= memory);
    const Piece piece{bytes, static_cast<unsigned char>(random())};
    memory[0] = memory[bytes - 1] = piece.value;
    pieces.emplace(memory, piece);
  }
  for (const auto& [memory, piece] : pieces) EXPECT_TRUE(memory_.release(memory));
}

}  // namespace
}  // namespace outrigger::client
