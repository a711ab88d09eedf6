#include "base/time_slice.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

namespace outrigger::client::test {
namespace {

using Attributes = std::array<std::uint64_t, 6>;  // the kernel's layout: the slice is in the fourth

Attributes attributes() {
  Attributes found{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, found.data(), sizeof(found), 0), 0);
  return found;
}

TEST(TimeSlice, IsShortForAWhileAndThenWhatItWas) {
  std::thread([] {
    const Attributes usual = attributes();
    if (::sched_getscheduler(0) != SCHED_OTHER || usual[3] == 0) GTEST_SKIP() << "slices cannot be chosen here";
    {
      const ShortSlices short_slices;
      EXPECT_EQ(attributes()[3], 100'000U);
      std::thread([] { EXPECT_EQ(attributes()[3], 100'000U) << "not inherited"; }).join();
    }
    EXPECT_EQ(attributes(), usual);
    Attributes chosen = usual;
    chosen[3] = 7'000'000;
    ASSERT_EQ(::syscall(SYS_sched_setattr, 0, chosen.data(), 0), 0);
    { const ShortSlices short_slices; }
    EXPECT_EQ(attributes()[3], 7'000'000U);
  }).join();
}

TEST(TimeSlice, OtherPoliciesAreLeftAlone) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_BATCH, &none), 0);
    const Attributes before = attributes();
    {
      const ShortSlices short_slices;
      EXPECT_EQ(attributes(), before);
    }
    EXPECT_EQ(attributes(), before);
  }).join();
}

}  // namespace
}  // namespace outrigger::client::test
