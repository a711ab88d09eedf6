#include "base/accessible_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
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
  ::mmap(memory_, kPages * page_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0);
  EXPECT_EQ(first(Access::read), address_of_page(1));
  EXPECT_EQ(first(Access::write), address_of_page(1));
}
#endif

}  // namespace
}  // namespace outrigger
