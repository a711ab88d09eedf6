// Which buffers become huge pages and when, which stay unchanged, and that contents stay. Tests of the kernel's work
// are skipped if it has no huge pages; all others run everywhere.
#include "client/memory/huge_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/huge_page.hpp"
#include "fake_node.hpp"
#include "support/huge_bytes.hpp"

namespace outrigger::client::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kUsualPageBytes = 2U << 20;
constexpr std::uint64_t kSmallPageBytes = 4096;
constexpr const char* kNone = "this kernel has no huge pages of a size that is used";
constexpr std::chrono::milliseconds kNeverTooLong = 10min;  // the machine may have other work
constexpr std::uint32_t kManyUses = 100;
// Half of these are more pages than a test and its sanitizers touch otherwise.
constexpr std::uint64_t kManyPages = 8;

std::uint64_t huge_page_bytes() {
  const std::uint64_t bytes = huge_page_support().bytes;
  return bytes == 0 || bytes > HugePages::kMostBytes ? kUsualPageBytes : bytes;
}

std::uint64_t up_to_page(std::uint64_t address) {
  return (address + huge_page_bytes() - 1) / huge_page_bytes() * huge_page_bytes();
}

std::byte pattern_at(std::uint64_t address) {
  return static_cast<std::byte>(address * 7 + (address >> 12) * 3);
}

void write_pattern(std::span<std::byte> memory) {
  const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(memory.data());
  for (std::uint64_t i = 0; i < memory.size(); ++i) memory[i] = pattern_at(begin + i);
}

bool has_pattern(std::span<const std::byte> memory) {
  const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(memory.data());
  for (std::uint64_t i = 0; i < memory.size(); ++i) {
    if (memory[i] != pattern_at(begin + i)) return false;
  }
  return true;
}

// khugepaged makes huge pages too, of memory that was touched since its last scan. Clearing the access bits keeps it
// away; explicit requests still work.
void hide_from_khugepaged() {
  std::ofstream("/proc/self/clear_refs") << '1';
}

// Address space for some pages, aligned to huge pages. Unmapped parts cannot be touched, and mapped parts have no
// neighbors.
class Room {
 public:
  explicit Room(std::uint64_t pages) : bytes_((pages + 1) * huge_page_bytes()) {
    base_ = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(base_, MAP_FAILED);
    begin_ = up_to_page(reinterpret_cast<std::uintptr_t>(base_));
  }
  ~Room() { ::munmap(base_, bytes_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  [[nodiscard]] std::uint64_t end() const { return reinterpret_cast<std::uintptr_t>(base_) + bytes_; }
  [[nodiscard]] std::uint64_t huge_bytes() const { return huge_bytes_between(begin(), end()); }

  // Maps new memory in small pages filled with the pattern, in place of the former memory.
  [[nodiscard]] std::span<std::byte> map(std::uint64_t offset, std::uint64_t bytes) const {
    auto* const at = reinterpret_cast<std::byte*>(begin_ + offset);  // NOLINT(performance-no-int-to-ptr)
    unmap(offset, bytes);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    EXPECT_EQ(::mmap(at, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0), at);
    (void)::madvise(at, bytes, MADV_NOHUGEPAGE);  // while it is touched, in case all memory gets huge pages
    write_pattern({at, bytes});
    hide_from_khugepaged();
    (void)::madvise(at, bytes, MADV_HUGEPAGE);
    return {at, bytes};
  }
  void unmap(std::uint64_t offset, std::uint64_t bytes) const {
    EXPECT_EQ(::munmap(reinterpret_cast<void*>(begin_ + offset), bytes), 0);  // NOLINT(performance-no-int-to-ptr)
  }

 private:
  void* base_;
  std::uint64_t bytes_;
  std::uint64_t begin_ = 0;
};

// An emulator may report success and do nothing.
bool one_can_be_made() {
  const std::uint64_t bytes = huge_page_support().bytes;
  if (bytes == 0 || bytes > HugePages::kMostBytes) return false;
  const Room room(1);
  const auto memory = room.map(0, bytes);
  return ::madvise(memory.data(), bytes, kCollapse) == 0 && room.huge_bytes() == bytes;
}

bool kernel_has_them() {
  static const bool has = one_can_be_made();
  return has;
}

class HugePagesTest : public ::testing::Test {
 protected:
  // The trial has page faults of its own, which would count as the program's between two uses.
  HugePagesTest() {
    (void)kernel_has_them();
    pages_.allow(page_, kNeverTooLong);
  }

  bool note(std::span<const std::byte> buffer) {
    return pages_.note_source(reinterpret_cast<std::uintptr_t>(buffer.data()), buffer.size());
  }
  // The use at which it was handed over, from 1; 0: at none of `uses`.
  template <class Noted>
  static std::uint32_t handed_over_at(std::uint32_t uses, const Noted& noted) {
    for (std::uint32_t use = 1; use <= uses; ++use) {
      if (noted()) return use;
    }
    return 0;
  }
  std::uint32_t use(std::span<const std::byte> buffer, std::uint32_t uses = kManyUses) {
    return handed_over_at(uses, [&] { return note(buffer); });
  }
  std::uint32_t use(std::uint64_t address, std::uint64_t bytes) {
    return handed_over_at(kManyUses, [&] { return pages_.note_source(address, bytes); });
  }
  // Returns the number of calls.
  std::uint64_t advance_to_the_end() {
    std::uint64_t calls = 0;
    for (; pages_.anything() && calls < 1'000'000; ++calls) pages_.advance();
    EXPECT_FALSE(pages_.anything());
    return calls;
  }

  const std::uint64_t page_ = huge_page_bytes();
  HugePages pages_;
};

TEST_F(HugePagesTest, BuffersAreHandedOverAfterSomeUses) {
  const Room room(2);
  const auto buffer = room.map(0, page_);
  EXPECT_FALSE(pages_.anything());
  EXPECT_EQ(use(buffer), HugePages::kLeastUses);
  EXPECT_TRUE(pages_.anything());
  EXPECT_EQ(use(buffer), 0U) << "again";
  EXPECT_EQ(pages_.bytes(), 0U);
  advance_to_the_end();
  EXPECT_EQ(use(buffer), 0U) << "it is as huge as can be";
  EXPECT_FALSE(pages_.anything());
  EXPECT_TRUE(has_pattern(buffer));
}

TEST_F(HugePagesTest, SmallBuffersAreLeftAlone) {
  const Room room(2);
  const auto buffer = room.map(0, page_);
  EXPECT_EQ(use(buffer.first(HugePages::kLeastBytes - 1)), 0U);
  EXPECT_EQ(use(buffer.first(0)), 0U);
  EXPECT_FALSE(pages_.anything());
  EXPECT_EQ(use(buffer.first(HugePages::kLeastBytes)), HugePages::kLeastUses);
}

TEST(HugePages, NothingIsDoneUnlessItIsAllowed) {
  const auto handed_over = [](HugePages& pages) {
    bool any = false;
    for (std::uint32_t use = 0; use < kManyUses; ++use) any = pages.note_source(1U << 30, 64U << 20) || any;
    return any || pages.anything();
  };
  const auto allowed = [&](std::uint64_t page_bytes) {
    HugePages pages;
    pages.allow(page_bytes);
    return handed_over(pages);
  };
  HugePages untold;
  EXPECT_FALSE(handed_over(untold));
  EXPECT_FALSE(allowed(0)) << "the kernel has none";
  EXPECT_FALSE(allowed(HugePages::kMostBytes * 2)) << "they are too large";
  EXPECT_FALSE(allowed(512U << 20));
  EXPECT_TRUE(allowed(HugePages::kMostBytes));
}

TEST_F(HugePagesTest, MemoryBecomesHugeAndKeepsItsContents) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  constexpr std::uint64_t kPages = 11;  // more than are made at a time, of 2 MiB
  const Room room(kPages);
  const auto buffer = room.map(0, kPages * page_);
  EXPECT_EQ(room.huge_bytes(), 0U);
  ASSERT_NE(use(buffer), 0U);
  EXPECT_EQ(room.huge_bytes(), 0U) << "that is the copier's to do";
  EXPECT_LE(advance_to_the_end(), 2 + kPages * page_ / HugePages::kMostBytes);
  EXPECT_EQ(room.huge_bytes(), kPages * page_);
  EXPECT_EQ(pages_.bytes(), kPages * page_);
  EXPECT_TRUE(has_pattern(buffer));
}

TEST_F(HugePagesTest, PagesThatAreTheBuffersInPartAreMadeToo) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(4);
  const auto mapping = room.map(0, 4 * page_);
  const auto buffer = mapping.subspan(page_ / 2 + 123, 2 * page_ + 45);  // of three pages, the last less than half
  ASSERT_NE(use(buffer), 0U);
  EXPECT_EQ(advance_to_the_end(), 3U);
  EXPECT_EQ(room.huge_bytes(), 3 * page_);
  EXPECT_EQ(pages_.bytes(), buffer.size());
  EXPECT_TRUE(has_pattern(mapping));
}

TEST_F(HugePagesTest, PagesThatAreHardlyTheBuffersAreLeftAlone) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(4);
  const auto mapping = room.map(0, 4 * page_);
  constexpr std::uint64_t kEdge = HugePages::kLeastBytes - 1;
  const auto buffer = mapping.subspan(page_ - kEdge, kEdge + page_ + kEdge);
  ASSERT_NE(use(buffer), 0U);
  advance_to_the_end();
  EXPECT_EQ(room.huge_bytes(), page_) << "the one in the middle";
  EXPECT_EQ(pages_.bytes(), page_);
  EXPECT_TRUE(has_pattern(mapping));
}

TEST_F(HugePagesTest, MappingsTooSmallForAPageStayAsTheyAre) {
  const Room room(3);
  const std::uint64_t in_between = page_ + page_ / 4;
  const auto buffer = room.map(in_between, page_ / 2);
  ASSERT_NE(use(buffer), 0U);
  EXPECT_EQ(advance_to_the_end(), 1U);
  EXPECT_EQ(room.huge_bytes(), 0U);
  EXPECT_EQ(pages_.bytes(), 0U);
  EXPECT_TRUE(has_pattern(buffer));
  room.unmap(0, in_between);  // now it has no neighbors
  room.unmap(in_between + page_ / 2, page_);
  HugePages again;
  again.allow(page_, kNeverTooLong);
  const std::uint64_t begin = room.begin() + in_between;
  ASSERT_NE(handed_over_at(kManyUses, [&] { return again.note_source(begin, buffer.size()); }), 0U);
  again.advance();
  EXPECT_FALSE(again.anything());
  EXPECT_EQ(again.bytes(), 0U);
  EXPECT_EQ(room.huge_bytes(), 0U);
  EXPECT_TRUE(has_pattern(buffer));
}

// The kernel reports success for such a page if either mapping has room for others.
TEST_F(HugePagesTest, APageThatTwoMappingsShareIsNotCounted) {
  const Room room(4);
  const auto mapping = room.map(0, 4 * page_);
  ASSERT_EQ(::mprotect(mapping.data() + page_ + page_ / 2, 2 * page_ + page_ / 2, PROT_READ), 0);
  const auto shared = mapping.subspan(page_, page_ / 2);
  ASSERT_NE(use(shared), 0U);
  advance_to_the_end();
  EXPECT_EQ(room.huge_bytes(), 0U);
  EXPECT_EQ(pages_.bytes(), 0U);
  const auto both = mapping.first(page_ + page_ / 2);
  ASSERT_NE(use(both), 0U);
  advance_to_the_end();
  EXPECT_EQ(room.huge_bytes(), kernel_has_them() ? page_ : 0);
  EXPECT_EQ(pages_.bytes(), room.huge_bytes());
  EXPECT_TRUE(has_pattern(mapping));
}

TEST_F(HugePagesTest, AHoleInABufferIsNotFilled) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(4);
  const auto mapping = room.map(0, 4 * page_);
  room.unmap(page_ + kSmallPageBytes, kSmallPageBytes);
  ASSERT_NE(use(mapping), 0U);
  advance_to_the_end();
  EXPECT_EQ(room.huge_bytes(), 3 * page_) << "all but the page with the hole";
  EXPECT_LE(pages_.bytes(), room.huge_bytes());
  EXPECT_TRUE(has_pattern(mapping.first(page_ + kSmallPageBytes)));
  EXPECT_TRUE(has_pattern(mapping.subspan(page_ + 2 * kSmallPageBytes)));
  EXPECT_NE(::msync(mapping.data() + page_ + kSmallPageBytes, kSmallPageBytes, MS_ASYNC), 0) << "still a hole";
}

// As of a buffer whose blocks are spread over the address space.
TEST_F(HugePagesTest, TerabytesWithNothingInThemEndSoon) {
  constexpr std::uint64_t kTebibytes = std::uint64_t{5} << 40;
  const Room room(64);
  ASSERT_NE(use(room.begin(), kTebibytes), 0U);
  EXPECT_LE(advance_to_the_end(), 4U);
  EXPECT_EQ(pages_.bytes(), 0U);
}

TEST_F(HugePagesTest, TerabytesThatBeginWithMemoryEndSoonToo) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  constexpr std::uint64_t kTebibytes = std::uint64_t{5} << 40;
  const Room room(8 * HugePages::kMostBytes / page_);
  const auto memory = room.map(0, HugePages::kMostBytes);
  ASSERT_NE(use(room.begin(), kTebibytes), 0U);
  constexpr std::uint32_t kTriesAgain = 3;  // a page was in use at that moment
  EXPECT_LE(advance_to_the_end(), 5U + kTriesAgain);
  EXPECT_EQ(pages_.bytes(), memory.size());
  EXPECT_EQ(room.huge_bytes(), memory.size());
  EXPECT_TRUE(has_pattern(memory));
}

TEST_F(HugePagesTest, BuffersBeyondTheLastAddressAreNone) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  EXPECT_EQ(use(kAll - (64U << 20), 128U << 20), 0U);
  EXPECT_EQ(use(4096, kAll), 0U);
  EXPECT_FALSE(pages_.anything());
}

// Holds a page: here by a pipe into which it was spliced.
class PageInUse {
 public:
  explicit PageInUse(std::span<std::byte> buffer) {
    EXPECT_EQ(::pipe(ends_), 0);
    const iovec page{buffer.data(), kSmallPageBytes};
    EXPECT_EQ(::vmsplice(ends_[1], &page, 1, 0), static_cast<ssize_t>(kSmallPageBytes));
  }
  ~PageInUse() { end(); }
  PageInUse(const PageInUse&) = delete;
  PageInUse& operator=(const PageInUse&) = delete;
  void end() {
    for (int& fd : ends_) {
      if (fd >= 0) ::close(std::exchange(fd, -1));
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST_F(HugePagesTest, PagesThatAreJustInUseAreTriedAgain) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(3);
  const auto buffer = room.map(0, 3 * page_);
  PageInUse in_use(buffer.subspan(page_ + 5 * kSmallPageBytes));
  ASSERT_NE(use(buffer), 0U);
  pages_.advance();
  ASSERT_TRUE(pages_.anything());
  EXPECT_EQ(room.huge_bytes(), 2 * page_);
  in_use.end();
  advance_to_the_end();
  EXPECT_EQ(room.huge_bytes(), 3 * page_);
  EXPECT_EQ(pages_.bytes(), 3 * page_);
  EXPECT_TRUE(has_pattern(buffer));
}

TEST_F(HugePagesTest, PagesThatStayInUseAreGivenUp) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(3);
  const auto buffer = room.map(0, 3 * page_);
  const PageInUse in_use(buffer);
  ASSERT_NE(use(buffer), 0U);
  EXPECT_LE(advance_to_the_end(), 10U);
  EXPECT_EQ(room.huge_bytes(), 2 * page_);
  EXPECT_TRUE(has_pattern(buffer));
}

TEST_F(HugePagesTest, TheMostOfABufferThatIsUsedIsMade) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(4);
  const auto buffer = room.map(0, 4 * page_);
  bool handed_over = false;
  for (int i = 0; i < 8 && !handed_over; ++i) handed_over = note(i % 2 == 0 ? buffer : buffer.first(page_ / 2));
  ASSERT_TRUE(handed_over);
  advance_to_the_end();
  EXPECT_EQ(room.huge_bytes(), buffer.size());
  EXPECT_EQ(pages_.bytes(), buffer.size());
}

// Benchmarks go through sizes: small blocks must not keep later large ones from being collapsed.
TEST_F(HugePagesTest, ABufferThatIsUsedForMoreLaterIsAskedForAgain) {
  const Room room(8);
  const auto buffer = room.map(0, 8 * page_);
  for (std::uint64_t bytes = page_ / 4; bytes <= buffer.size(); bytes *= 2) {
    const auto used = buffer.first(bytes);
    EXPECT_EQ(use(used), bytes == page_ / 4 ? HugePages::kLeastUses : HugePages::kLeastUses + 1) << bytes;
    advance_to_the_end();
    EXPECT_EQ(use(used), 0U);
    EXPECT_EQ(use(buffer.first(page_ / 4)), 0U) << "it is part of that";
    EXPECT_EQ(use(buffer.first(std::min(bytes + bytes / 8, buffer.size()))), 0U) << "hardly more";
  }
  EXPECT_TRUE(has_pattern(buffer));
  if (!kernel_has_them()) return;
  EXPECT_EQ(room.huge_bytes(), buffer.size());
  EXPECT_EQ(pages_.bytes(), buffer.size()) << "counted once";
}

TEST_F(HugePagesTest, WhatLiesBehindASmallerBufferAtTheSameAddressIsLeftAlone) {
  const Room room(8);
  auto buffer = room.map(0, 6 * page_);
  ASSERT_NE(use(buffer), 0U);
  advance_to_the_end();
  (void)room.map(0, 8 * page_);
  const auto smaller = room.map(0, 2 * page_);
  const std::uint64_t before = room.huge_bytes();
  ASSERT_NE(use(smaller), 0U);
  advance_to_the_end();
  EXPECT_EQ(room.huge_bytes() - before, kernel_has_them() ? smaller.size() : 0);
  EXPECT_TRUE(has_pattern(smaller));
}

TEST_F(HugePagesTest, MemoryThatStaysIsNotAskedForAgain) {
  const Room room(kManyPages + 2);
  const auto buffer = room.map(0, kManyPages * page_);
  const std::uint64_t elsewhere = (kManyPages + 1) * page_;
  ASSERT_NE(use(buffer), 0U);
  advance_to_the_end();
  const std::uint64_t bytes = pages_.bytes();
  for (std::uint32_t round = 0; round < 4 * HugePages::kUsesPerLook; ++round) {
    ASSERT_FALSE(note(buffer));
    write_pattern(buffer.first(page_));
    (void)room.map(elsewhere, 4 * kSmallPageBytes);  // a few unrelated new pages
  }
  EXPECT_EQ(pages_.bytes(), bytes);
}

TEST_F(HugePagesTest, MemoryThatWasGivenBackIsAskedForAgainAfterTwiceAsManyUses) {
  const Room room(kManyPages);
  auto buffer = room.map(0, kManyPages * page_);
  ASSERT_EQ(use(buffer), HugePages::kLeastUses);
  advance_to_the_end();
  std::uint32_t uses = HugePages::kLeastUses;
  const std::uint64_t huge = kernel_has_them() ? buffer.size() : 0;
  for (int round = 0; round < 3; ++round) {
    ASSERT_FALSE(note(buffer));
    buffer = room.map(0, kManyPages * page_);
    EXPECT_EQ(room.huge_bytes(), 0U);
    uses *= 2;
    EXPECT_EQ(use(buffer), HugePages::kUsesPerLook - 1 + uses) << "the last one before these sees that it is new";
    advance_to_the_end();
    EXPECT_EQ(room.huge_bytes(), huge);
    EXPECT_EQ(pages_.bytes(), huge) << "counted once";
    EXPECT_TRUE(has_pattern(buffer));
  }
}

TEST_F(HugePagesTest, MemoryThatStayedForLongIsWorthItAtOnce) {
  const Room room(kManyPages);
  auto buffer = room.map(0, kManyPages * page_);
  ASSERT_NE(use(buffer), 0U);
  advance_to_the_end();
  buffer = room.map(0, kManyPages * page_);
  ASSERT_EQ(use(buffer), HugePages::kUsesPerLook + 2 * HugePages::kLeastUses);
  advance_to_the_end();
  ASSERT_EQ(use(buffer, HugePages::kMostUses + 1), 0U);
  buffer = room.map(0, kManyPages * page_);
  EXPECT_EQ(use(buffer), HugePages::kUsesPerLook - 1 + HugePages::kLeastUses);
}

// At most this many uses, however often it is freed.
TEST_F(HugePagesTest, MemoryThatIsGivenBackAlwaysIsAskedForNowAndThen) {
  const Room room(1);
  auto buffer = room.map(0, page_);
  ASSERT_NE(use(buffer), 0U);
  advance_to_the_end();
  std::uint32_t at = 0;
  for (int round = 0; round < 8; ++round) {
    buffer = room.map(0, page_);
    at = use(buffer, 2 * HugePages::kMostUses);
    advance_to_the_end();
  }
  EXPECT_EQ(at, HugePages::kUsesPerLook + HugePages::kMostUses);
}

TEST_F(HugePagesTest, TheBufferInWorkIsKeptWhileOthersAreNoted) {
  const Room room(kManyPages);
  const auto buffer = room.map(0, kManyPages * page_);
  ASSERT_NE(use(buffer), 0U);
  constexpr std::uint64_t kElsewhere = std::uint64_t{1} << 41;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    for (std::uint32_t use = 0; use <= HugePages::kLeastUses; ++use) {
      ASSERT_FALSE(pages_.note_source(kElsewhere + i * page_, page_)) << "one at a time";
    }
  }
  advance_to_the_end();
  EXPECT_TRUE(has_pattern(buffer));
  EXPECT_EQ(use(buffer), 0U) << "it is known to be huge";
  if (kernel_has_them()) {
    EXPECT_EQ(room.huge_bytes(), buffer.size());
    EXPECT_EQ(pages_.bytes(), buffer.size());
  }
  EXPECT_NE(use(kElsewhere + 4999 * page_, page_), 0U) << "now it is that one's turn, at once where its place was free";
  advance_to_the_end();
  EXPECT_TRUE(has_pattern(buffer));
}

TEST_F(HugePagesTest, BytesAreThoseOfAllBuffers) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(8);
  const auto first = room.map(0, 2 * page_);
  const auto second = room.map(4 * page_, 3 * page_ + kSmallPageBytes);
  for (const auto buffer : {first, second}) {
    ASSERT_NE(use(buffer), 0U);
    advance_to_the_end();
  }
  EXPECT_EQ(pages_.bytes(), 5 * page_);
  EXPECT_EQ(room.huge_bytes(), 5 * page_);
}

TEST_F(HugePagesTest, PagesThatTakeTooLongAreTheLast) {
  const Room room(16);
  const auto buffer = room.map(0, page_);
  const auto other = room.map(4 * page_, 12 * page_);
  HugePages hasty;
  hasty.allow(page_, 0ms);
  const auto note_hastily = [&](std::span<const std::byte> noted) {
    return hasty.note_source(reinterpret_cast<std::uintptr_t>(noted.data()), noted.size());
  };
  ASSERT_NE(handed_over_at(kManyUses, [&] { return note_hastily(other); }), 0U);
  hasty.advance();
  EXPECT_FALSE(hasty.anything());
  EXPECT_LT(hasty.bytes(), other.size());
  EXPECT_EQ(handed_over_at(kManyUses, [&] { return note_hastily(buffer); }), 0U);
  EXPECT_TRUE(has_pattern(other));
}

// The posting thread may have checked just before.
TEST_F(HugePagesTest, WhatIsHandedOverWhenTheyAreGivenUpIsLeftAlone) {
  const Room room(4);
  const auto buffer = room.map(kSmallPageBytes, 2 * page_);
  ASSERT_NE(use(buffer), 0U);
  pages_.allow(0);
  EXPECT_EQ(advance_to_the_end(), 1U);
  EXPECT_EQ(pages_.bytes(), 0U);
  EXPECT_EQ(room.huge_bytes(), 0U);
  EXPECT_TRUE(has_pattern(buffer));
}

TEST_F(HugePagesTest, PrivateMemoryStaysPrivate) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(3);
  const auto buffer = room.map(0, 3 * page_);
  ASSERT_NE(use(buffer), 0U);
  advance_to_the_end();
  ASSERT_EQ(room.huge_bytes(), buffer.size());
  int parent_wrote[2];
  ASSERT_EQ(::pipe(parent_wrote), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char text = 0;
    if (::read(parent_wrote[0], &text, 1) != 1) ::_exit(1);
    if (!has_pattern(buffer)) ::_exit(2);
    for (std::byte& byte : buffer) byte = std::byte{1};
    ::_exit(0);
  }
  const std::uint64_t edge = page_ + page_ / 2;
  for (std::byte& byte : buffer.first(edge)) byte = std::byte{2};
  ASSERT_EQ(::write(parent_wrote[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child sees what its parent writes";
  for (const std::byte byte : buffer.first(edge)) ASSERT_EQ(byte, std::byte{2});
  EXPECT_TRUE(has_pattern(buffer.subspan(edge))) << "the parent sees what its child writes";
  for (const int end : parent_wrote) ::close(end);
}

// ---------------------------------------------------------------- with a client

class HugePagesOfClient : public ::testing::Test {
 protected:
  explicit HugePagesOfClient(bool huge_pages = true) : node_(with_copier()), client_(attach(huge_pages)) {
    node_.header().copies.wanted.store(1);
  }

  static FakeNodeOptions with_copier() {
    FakeNodeOptions options;
    options.cpu = allowed_cpu();
    return options;
  }
  AttachedEndpoint attach(bool huge_pages) const {
    AttachOptions options = node_.attach_options();
    options.huge_pages = huge_pages;
    auto attached = client::attach(options);
    EXPECT_TRUE(attached) << attached.error();
    return std::move(attached).value();
  }
  void post(std::span<std::byte> send, std::span<std::byte> receive) {
    OperationRequest request;
    request.group = group_;
    request.sequence = sequence_++;
    request.collective = collective_;
    request.algorithm = algorithm_;
    const auto stride = [](std::span<std::byte> buffer) { return static_cast<std::int64_t>(buffer.size() / 8); };
    request.send = BufferLayout{send.data(), stride(send), send.size() / 8, {}};
    request.receive = BufferLayout{receive.data(), stride(receive), receive.size() / 8, {}};
    auto operation = client_->post(request);
    ASSERT_TRUE(operation);
    const auto slot = node_.take_post();
    ASSERT_TRUE(slot);
    node_.complete(*slot);
    ASSERT_TRUE(finish(*client_, *operation));
  }
  void post_often(std::span<std::byte> send, std::span<std::byte> receive) {
    post(send, receive);  // starts the copier
    ASSERT_TRUE(eventually([&] { return client_->lending().copier_runs(); }));
    for (std::uint32_t i = 0; i < 2 * HugePages::kLeastUses; ++i) post(send, receive);
  }
  // The copier is woken when it gets a buffer, and for nothing else while there are no copies.
  std::uint32_t rings() { return node_.header().copies.bell.load(); }
  bool becomes_huge(std::uint64_t bytes) {
    return eventually([&] { return client_->statistics().huge_bytes == bytes; });
  }

  const std::uint64_t page_ = huge_page_bytes();
  Collective collective_ = Collective::ialltoall;
  Algorithm algorithm_ = Algorithm::ring_pull;
  std::uint64_t sequence_ = 0;
  FakeNode node_;
  AttachedEndpoint client_;
  std::shared_ptr<const Group> group_ = client_->define_group(GroupId{1, 1}, world(8), GroupRank(3));
};

class HugePagesSwitchedOff : public HugePagesOfClient {
 protected:
  HugePagesSwitchedOff() : HugePagesOfClient(false) {}
};

TEST_F(HugePagesOfClient, WhatItSendsFromOftenBecomesHugeAndWhatItReceivesIntoDoesNot) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(3);
  const Room into(3);
  const auto send = room.map(0, 2 * page_);
  const auto receive = into.map(0, 2 * page_);
  const std::uint32_t before = rings();
  post_often(send, receive);
  EXPECT_EQ(rings(), before + 1);
  EXPECT_TRUE(becomes_huge(send.size()));
  EXPECT_EQ(room.huge_bytes(), send.size());
  EXPECT_EQ(into.huge_bytes(), 0U) << "nobody reads there";
  EXPECT_TRUE(has_pattern(send));
  EXPECT_TRUE(eventually([&] { return node_.header().copies.copier_away.load() == 0; }));
  post_often(send, receive);
  EXPECT_EQ(rings(), before + 1);
  EXPECT_EQ(client_->statistics().huge_bytes, send.size());
}

TEST_F(HugePagesOfClient, WhatItPassesOnBecomesHugeAsWell) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  collective_ = Collective::iallgather;
  algorithm_ = Algorithm::node_pull;
  const Room room(1);
  const Room into(3);
  const auto send = room.map(0, page_ / 4);
  const auto receive = into.map(0, 2 * page_);
  post_often(send.first(4096), receive);
  EXPECT_TRUE(becomes_huge(receive.size()));
  EXPECT_EQ(into.huge_bytes(), receive.size());
  EXPECT_TRUE(has_pattern(receive));
}

TEST_F(HugePagesOfClient, MemoryThatIsSharedIsLeftAlone) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  auto* const shared = static_cast<std::byte*>(client_->heap().allocate_for_program(4 * page_));
  ASSERT_NE(shared, nullptr);
  const std::span<std::byte> memory(shared, 4 * page_);
  write_pattern(memory);
  const std::uint32_t before = rings();
  post_often(memory.first(2 * page_), memory.subspan(2 * page_));
  EXPECT_EQ(rings(), before);
  EXPECT_EQ(client_->statistics().huge_bytes, 0U);
  EXPECT_TRUE(release(shared));
}

TEST_F(HugePagesSwitchedOff, MemoryStaysAsItIs) {
  if (!kernel_has_them()) GTEST_SKIP() << kNone;
  const Room room(3);
  const auto buffer = room.map(0, 2 * page_);
  const std::uint32_t before = rings();
  post_often(buffer, buffer);
  EXPECT_EQ(rings(), before);
  EXPECT_EQ(client_->statistics().huge_bytes, 0U);
  EXPECT_EQ(room.huge_bytes(), 0U);
}

}  // namespace
}  // namespace outrigger::client::test
