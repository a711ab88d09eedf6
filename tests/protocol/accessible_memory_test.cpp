#include "base/accessible_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/shared_memory.hpp"

namespace outrigger {
namespace {

constexpr std::size_t kPages = 4;

class AccessibleMemory : public testing::Test {
 protected:
  AccessibleMemory()
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        memory_(static_cast<std::byte*>(
            ::mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~AccessibleMemory() override { ::munmap(memory_, kPages * page_); }
  [[nodiscard]] std::optional<std::uintptr_t> first(Access access, std::size_t from = 100) const {
    return first_inaccessible(memory_ + from, kPages * page_ - from, access);
  }
  [[nodiscard]] std::uintptr_t address_of_page(std::size_t page) const {
    return reinterpret_cast<std::uintptr_t>(memory_ + page * page_);
  }

  std::size_t page_;
  std::byte* memory_;
};

TEST_F(AccessibleMemory, IsAllThere) {
  EXPECT_EQ(first(Access::read), std::nullopt);
  EXPECT_EQ(first(Access::write), std::nullopt);
}

TEST_F(AccessibleMemory, PermissionsAreSeen) {
  ::mprotect(memory_ + 2 * page_, page_, PROT_READ);
  EXPECT_EQ(first(Access::read), std::nullopt);
  EXPECT_EQ(first(Access::write), address_of_page(2));
  ::mprotect(memory_ + page_, page_, PROT_NONE);
  EXPECT_EQ(first(Access::read), address_of_page(1));
  EXPECT_EQ(first(Access::write), address_of_page(1));
}

TEST_F(AccessibleMemory, HolesAreSeenAlsoAtBothEnds) {
  ::munmap(memory_ + 3 * page_, page_);
  EXPECT_EQ(first(Access::read), address_of_page(3));
  ::munmap(memory_, page_);
  EXPECT_EQ(first(Access::write), address_of_page(0) + 100);
}

#if !defined(OUTRIGGER_EMULATED)
TEST_F(AccessibleMemory, TheEndOfAFileIsSeen) {
  const UniqueFd file(::memfd_create("short", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(page_)), 0);
  static_cast<void>(::mmap(memory_, kPages * page_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0));
  EXPECT_EQ(first(Access::read), address_of_page(1));
  EXPECT_EQ(first(Access::write), address_of_page(1));
}
#endif

#if !defined(OUTRIGGER_EMULATED)
class ReachableMemory : public AccessibleMemory {
 protected:
  [[nodiscard]] Reachable all(Access access) {
    noted_ = 0;
    return reachable(address_of_page(0), address_of_page(kPages), access, [this](const MappedRange&) { ++noted_; });
  }
  int noted_ = 0;
};

TEST_F(ReachableMemory, OthersReachOrdinaryMemory) {
  for (const Access access : {Access::read, Access::write}) {
    EXPECT_EQ(all(access), Reachable::by_others);
    EXPECT_EQ(noted_, 1);
    EXPECT_TRUE(others_reach_page(address_of_page(1), access));
  }
}

TEST_F(ReachableMemory, EachMappingIsLookedAt) {
  ::mprotect(memory_ + page_, page_, PROT_READ);
  EXPECT_EQ(all(Access::read), Reachable::by_others);
  EXPECT_EQ(noted_, 3);
  EXPECT_EQ(all(Access::write), Reachable::by_nobody);
  ::munmap(memory_ + 3 * page_, page_);
  EXPECT_EQ(all(Access::read), Reachable::by_nobody);
}

TEST_F(ReachableMemory, PagesWithoutThePermissionToReadAreThisProcesss) {
  ::mprotect(memory_ + 2 * page_, page_, PROT_WRITE);
  EXPECT_EQ(all(Access::read), Reachable::by_this_process);
  EXPECT_EQ(all(Access::write), Reachable::by_this_process);
  EXPECT_FALSE(others_reach_page(address_of_page(2), Access::read));
  ::mprotect(memory_ + 2 * page_, page_, PROT_NONE);
  EXPECT_EQ(all(Access::read), Reachable::by_nobody);
}

TEST_F(ReachableMemory, TheEndOfAFileIsNobodys) {
  const UniqueFd file(::memfd_create("short", MFD_CLOEXEC));
  static_cast<void>(::mmap(memory_, kPages * page_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0));
  EXPECT_EQ(all(Access::read), Reachable::by_nobody);
}

TEST_F(ReachableMemory, SecretMemoryIsThisProcesss) {
  constexpr long kMemfdSecret = 447;
  const UniqueFd secret(static_cast<int>(::syscall(kMemfdSecret, 0)));
  if (!secret.valid()) GTEST_SKIP() << "no memfd_secret here";
  ASSERT_EQ(::ftruncate(secret.get(), static_cast<off_t>(page_)), 0);
  static_cast<void>(::mmap(memory_ + page_, page_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, secret.get(), 0));
  EXPECT_EQ(all(Access::read), Reachable::by_this_process);
  EXPECT_EQ(all(Access::write), Reachable::by_this_process);
  EXPECT_EQ(noted_, 2);
  EXPECT_FALSE(others_reach_page(address_of_page(1), Access::write));
  EXPECT_EQ(first(Access::read), std::nullopt);
}
#endif

}  // namespace
}  // namespace outrigger
