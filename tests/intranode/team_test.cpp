// Teams of threads and of processes against plain references. Threads share a mapping of the control area: the thread
// sanitizer tells flags apart by their addresses.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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
  const Result<ControlArea> area = ControlArea::attach(fd.value().get(), size);
  ASSERT_TRUE(area.ok()) << area.error();
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Waiter waiter(WaitPolicy::shared_core());
      Team team(area.value(), rank, waiter);
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

TEST(TeamTest, MembersMayBeProcesses) {
  constexpr std::uint32_t kSize = 4;
  Result<UniqueFd> fd = ControlArea::create(kSize);
  ASSERT_TRUE(fd.ok()) << fd.error();
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    if (::fork() != 0) continue;
    Waiter waiter(WaitPolicy::shared_core());
    Team team(ControlArea::attach(fd.value().get(), kSize).value(), rank, waiter);
    bool right = team.open() == Outcome::done;
    const TreeCombine sum = TreeCombine::in_rank_order(kDoubleSum, kSize);
    for (int call = 0; right && call < 200; ++call) {
      std::vector<double> numbers(static_cast<std::size_t>(call) * 50, static_cast<int>(rank) + call);
      const std::span<std::byte> bytes = std::as_writable_bytes(std::span(numbers));
      right = team.allreduce(bytes, bytes.data(), sum) == Outcome::done;
      for (const double number : numbers) right = right && number == 4 * call + 6;
    }
    ::_exit(right ? 0 : 1);
  }
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    int status = 0;
    ASSERT_GT(::wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(ControlAreaTest, RefusesMemoryThatIsTooSmall) {
  Result<UniqueFd> fd = ControlArea::create(2);
  ASSERT_TRUE(fd.ok()) << fd.error();
  EXPECT_TRUE(ControlArea::attach(fd.value().get(), 2).ok());
  EXPECT_FALSE(ControlArea::attach(fd.value().get(), 3).ok());
  EXPECT_FALSE(ControlArea::create(0).ok());
  EXPECT_FALSE(ControlArea::create(kMostMembers + 1).ok());
}

}  // namespace
}  // namespace outrigger::intranode
