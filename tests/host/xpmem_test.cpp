// Private memory that is attached by XPMEM, without the module: the other rank is a child with which this process
// shares memory at the same addresses, so that an attachment is the address itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>

#include "fabric/host/host_fabric.hpp"
#include "fabric/host/lanes/xpmem_windows.hpp"
#include "fabric_fixture.hpp"

namespace outrigger::xpmem_test {
namespace {

using fabric::copy_guarded;
using fabric::HostFabric;
using fabric::MoveStatus;
using fabric::XpmemWindows;
using testing::Ended;
using testing::make_rank;

constexpr WorldRank kHere{0};
constexpr WorldRank kChild{1};
constexpr std::uint64_t kBytes = 1 << 20;
constexpr std::int64_t kSegment = 5;
constexpr std::int64_t kAccess = 7;

std::set<void*> attached;
bool released = false;
bool attaches = true;

void* attach(XpmemCalls::Place place, std::size_t bytes, void* where) {
  EXPECT_EQ(place.access, kAccess);
  EXPECT_EQ(where, nullptr);
  EXPECT_EQ(bytes % 4096, 0U);
  if (!attaches) return reinterpret_cast<void*>(-1);
  auto* address = reinterpret_cast<void*>(place.offset);
  attached.insert(address);
  return address;
}

XpmemCalls make_calls() {
  XpmemCalls calls;
  calls.get = [](std::int64_t segment, int, int, void*) { return segment == kSegment ? kAccess : -1; };
  calls.release = [](std::int64_t access) { return (released = access == kAccess) ? 0 : -1; };
  calls.attach = attach;
  calls.detach = [](void* address) { return attached.erase(address) == 1 ? 0 : -1; };
  return calls;
}

std::byte byte_at(std::uint64_t i) {
  return static_cast<std::byte>(i * 13 + (i >> 10));
}

class Pages {
 public:
  Pages(int protection, int flags)
      : base_(static_cast<std::byte*>(::mmap(nullptr, kBytes, protection, flags | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { ::munmap(base_, kBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(base_); }

 private:
  std::byte* base_;
};

class Xpmem : public ::testing::Test {
 protected:
  Xpmem() {
    attached.clear();
    released = false;
    attaches = true;
  }
  XpmemCalls calls_ = make_calls();
};

TEST_F(Xpmem, NeighboursShareAWindow) {
  const auto windows = XpmemWindows::open(calls_, kSegment);
  ASSERT_TRUE(windows);
  constexpr std::uint64_t kFirst = 100 * XpmemWindows::kAlignment;
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(windows->at(kFirst + 5000, 10)), kFirst + 5000);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(windows->at(kFirst + kBytes, kBytes)), kFirst + kBytes);
  EXPECT_EQ(windows->windows(), 1U);
  EXPECT_NE(windows->at(kFirst + XpmemWindows::kAlignment - 1, 2), nullptr);
  EXPECT_EQ(windows->windows(), 2U) << "across a boundary";
}

TEST_F(Xpmem, TheLeastUsedWindowGoes) {
  auto windows = XpmemWindows::open(calls_, kSegment);
  const auto touch = [&](std::uint64_t index) { EXPECT_NE(windows->at(index * XpmemWindows::kAlignment, 1), nullptr); };
  for (std::uint64_t i = 1; i <= XpmemWindows::kMostWindows; ++i) touch(i);
  touch(1);
  touch(1000);
  EXPECT_EQ(windows->windows(), XpmemWindows::kMostWindows);
  EXPECT_EQ(attached.size(), XpmemWindows::kMostWindows);
  EXPECT_TRUE(attached.contains(reinterpret_cast<void*>(XpmemWindows::kAlignment)));
  EXPECT_FALSE(attached.contains(reinterpret_cast<void*>(2 * XpmemWindows::kAlignment)));
  windows.reset();
  EXPECT_TRUE(attached.empty());
  EXPECT_TRUE(released);
}

TEST_F(Xpmem, WhatCannotBeAttachedIsNull) {
  EXPECT_EQ(XpmemWindows::open(calls_, kNoXpmemSegment), nullptr);
  EXPECT_EQ(XpmemWindows::open(calls_, kSegment + 1), nullptr);
  const auto windows = XpmemWindows::open(calls_, kSegment);
  EXPECT_EQ(windows->at(~0ULL, 1), nullptr);
  EXPECT_EQ(windows->at(4096, ~0ULL), nullptr);
  attaches = false;
  EXPECT_EQ(windows->at(4096, 1), nullptr);
}

TEST(GuardedCopy, FaultsEndTheCopyOnly) {
  const Pages good(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  const Pages none(PROT_NONE, MAP_PRIVATE);
  std::memset(good.base(), 3, kBytes);
  EXPECT_FALSE(copy_guarded(good.base(), none.base(), kBytes));
  EXPECT_FALSE(copy_guarded(none.base(), good.base(), kBytes));
  EXPECT_TRUE(copy_guarded(good.base(), good.base() + 100, kBytes - 100));
}

TEST(GuardedCopy, MemoryThatIsNoMore) {
  const int fd = ::memfd_create("outrigger-test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, kBytes), 0);
  void* shared = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_EQ(::ftruncate(fd, 4096), 0);  // a touch beyond is a SIGBUS now, as with an attachment
  std::array<std::byte, 10> bytes{};
  EXPECT_TRUE(copy_guarded(bytes.data(), static_cast<std::byte*>(shared), bytes.size()));
  EXPECT_FALSE(copy_guarded(bytes.data(), static_cast<std::byte*>(shared) + 8192, bytes.size()));
  ::munmap(shared, kBytes);
  ::close(fd);
}

#ifndef OUTRIGGER_SANITIZED
TEST(GuardedCopyDeathTest, OtherFaultsAreWhatTheyWere) {
  const Pages none(PROT_NONE, MAP_PRIVATE);
  std::byte byte{};
  EXPECT_FALSE(copy_guarded(&byte, none.base(), 1));
  EXPECT_EXIT(*const_cast<volatile std::byte*>(none.base()) = byte, ::testing::KilledBySignal(SIGSEGV), "");
}
#endif

class XpmemMoves : public Xpmem {
 protected:
  XpmemMoves() {
    for (std::uint64_t i = 0; i < kBytes; ++i) theirs_.base()[i] = byte_at(i);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) ::pause();
    }
    fabric_.add_rank(kHere, make_rank(kHere, ::getpid()));
    fabric_.add_rank(kChild, make_rank(kChild, child_));
    fabric_.expect_copier(kHere);
    for (const WorldRank rank : {kHere, kChild}) fabric_.rank(rank)->set_windows(XpmemWindows::open(calls_, kSegment));
  }
  ~XpmemMoves() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  static Block block(WorldRank rank, std::uint64_t address, std::uint64_t bytes) {
    return Block{MemoryRef{rank, kPrivateRegion, address}, bytes};
  }
  void move(const Block& from, const Block& to) {
    ended_.emplace();
    fabric_.move(from, to, nullptr, *ended_);
    while (!ended_->ended()) (void)fabric_.progress();
  }
  void expect_right(std::uint64_t bytes) const {
    for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(mine_.base()[i], byte_at(i)) << i;
  }

  const Pages theirs_{PROT_READ | PROT_WRITE, MAP_SHARED};
  const Pages mine_{PROT_READ | PROT_WRITE, MAP_PRIVATE};
  pid_t child_ = -1;
  HostFabric fabric_;
  std::optional<Ended> ended_;
};

TEST_F(XpmemMoves, OneCopyAndNoCopier) {
  move(block(kChild, theirs_.address(), kBytes - 1), block(kHere, mine_.address(), kBytes - 1));
  EXPECT_EQ(ended_->status(), MoveStatus::ok);
  EXPECT_EQ(ended_->reach(), Reach::xpmem);
  expect_right(kBytes - 1);
  EXPECT_EQ(fabric_.rank(kHere)->segment().header().copies.wanted.load(), 0U);
  move(block(kHere, mine_.address(), kBytes / 2), block(kHere, mine_.address() + kBytes / 2, kBytes / 2));
  EXPECT_EQ(ended_->reach(), Reach::xpmem) << "a rank's own block";
  EXPECT_EQ(std::memcmp(mine_.base(), mine_.base() + kBytes / 2, kBytes / 2), 0);
}

TEST_F(XpmemMoves, WhatFaultsIsRelayed) {
  ASSERT_EQ(::mprotect(theirs_.base(), kBytes, PROT_NONE), 0);  // here; the child still has it
  move(block(kChild, theirs_.address(), kBytes), block(kHere, mine_.address(), kBytes));
  EXPECT_EQ(ended_->status(), MoveStatus::ok);
  EXPECT_EQ(ended_->reach(), Reach::relay);
  expect_right(kBytes);
}

TEST_F(XpmemMoves, WhatIsNotThereIsAFault) {
  std::uint64_t gone = 0;
  {
    const Pages pages(PROT_READ, MAP_PRIVATE);
    gone = pages.address();
  }
  move(block(kHere, gone, 4096), block(kHere, mine_.address(), 4096));
  EXPECT_EQ(ended_->status(), MoveStatus::memory_fault);
}

TEST_F(XpmemMoves, WithoutAttachmentsThereAreCopiers) {
  attaches = false;
  move(block(kChild, theirs_.address(), kBytes), block(kHere, mine_.address(), kBytes));
  EXPECT_EQ(ended_->reach(), Reach::relay);
  move(block(kChild, theirs_.address(), kBytes), block(kHere, mine_.address(), kBytes));
  EXPECT_EQ(fabric_.rank(kHere)->segment().header().copies.wanted.load(), 1U);
  expect_right(kBytes);
}

TEST_F(XpmemMoves, ARankThatLeavesIsDetached) {
  move(block(kChild, theirs_.address(), 4096), block(kHere, mine_.address(), 4096));
  EXPECT_FALSE(attached.empty());
  fabric_.drop_rank(kChild);
  EXPECT_TRUE(released);
}

}  // namespace
}  // namespace outrigger::xpmem_test
