#include "service/loop/scheduling.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

namespace outrigger::service {
namespace {

// The kernel's scheduling attributes of a thread: 48 bytes, the slice in the fourth group of eight.
std::uint64_t slice_ns() {
  std::array<std::uint64_t, 6> attributes{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0), 0);
  return attributes[3];
}

TEST(Scheduling, ShortSlicesAreSetIfTheKernelHasThem) {
  std::thread([] {
    const bool has_slices = slice_ns() != 0;
    const int policy = ::sched_getscheduler(0);
    ask_for_short_slices();
    EXPECT_EQ(::sched_getscheduler(0), policy);
    if (policy != SCHED_OTHER) GTEST_SKIP() << "slices are of SCHED_OTHER";
    if (!has_slices) GTEST_SKIP() << "this kernel's slices cannot be chosen";
    EXPECT_EQ(slice_ns(), 100'000U);
  }).join();
}

TEST(Scheduling, OtherPoliciesAreLeftAlone) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_BATCH, &none), 0);
    ask_for_short_slices();
    EXPECT_EQ(::sched_getscheduler(0), SCHED_BATCH);
  }).join();
}

}  // namespace
}  // namespace outrigger::service
