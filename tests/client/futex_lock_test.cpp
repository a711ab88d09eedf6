#include "base/futex_lock.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <mutex>
#include <thread>
#include <vector>

namespace outrigger {
namespace {

TEST(FutexLock, OneThreadAtATime) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 2000;
  FutexLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const std::scoped_lock held(lock);
        const int before = count;
        if (round % 8 == 0) ::sched_yield();  // others come and wait meanwhile
        count = before + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(FutexLock, TryLockFailsWhileItIsHeld) {
  FutexLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace outrigger
