// Teams of threads, each with its own mapping of the control area, against plain references.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "random_calls.hpp"

namespace outrigger::intranode {
namespace {

// Runs `member` as each member of a team of that size.
void run_team(std::uint32_t size, const std::function<void(Team&)>& member) {
  Result<UniqueFd> fd = ControlArea::create(size);
  ASSERT_TRUE(fd.ok()) << fd.error();
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Result<ControlArea> area = ControlArea::attach(fd.value().get(), size);
      ASSERT_TRUE(area.ok()) << area.error();
      Waiter waiter(WaitPolicy::shared_core());
      Team team(std::move(area).value(), rank, waiter);
      ASSERT_EQ(team.open(), Outcome::done);
      member(team);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TeamTest, ABarrierEndsWhenAllHaveEntered) {
  for (const std::uint32_t size : {1U, 2U, 3U, 5U}) {
    std::atomic<std::uint32_t> entered = 0;
    run_team(size, [&](Team& team) {
      for (std::uint32_t round = 1; round <= 200; ++round) {
        entered.fetch_add(1, std::memory_order_relaxed);
        ASSERT_EQ(team.barrier(), Outcome::done);
        ASSERT_GE(entered.load(std::memory_order_relaxed), round * size);
      }
    });
  }
}

TEST(TeamTest, RandomCallsGiveWhatTheyMust) {
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 7U}) {
    Bytes shared(size);
    run_team(size, [&](Team& team) {
      RandomCalls calls(team, size, 100'000, shared.data());
      for (int call = 0; call < 400; ++call) ASSERT_EQ(calls.next(), "");
    });
  }
}

}  // namespace
}  // namespace outrigger::intranode
