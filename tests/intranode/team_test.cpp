// Teams of threads and of processes against plain references.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "local_memory.hpp"
#include "random_calls.hpp"
#include "team_of_threads.hpp"

namespace outrigger::intranode {
namespace {

TEST(TeamTest, ABarrierEndsWhenAllHaveEntered) {
  for (const std::uint32_t size : {1U, 2U, 3U, 5U}) {
    std::atomic<std::uint32_t> entered = 0;
    run_team(size, [&](Team& team) {
      ASSERT_EQ(team.open(), Outcome::done);
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
    constexpr std::size_t kMost = 100'000;
    Bytes shared(size);
    const std::size_t each = RandomCalls::buffer_bytes(size, kMost);
    Bytes buffers(size * each);
    run_team(size, [&](Team& team) {
      LocalMemory memory(size, buffers);
      ASSERT_EQ(team.open(memory), Outcome::done);
      ASSERT_TRUE(team.copies_directly());
      memory.fail(team.rank(), 50);
      RandomCalls calls(team, size, kMost, shared.data(), std::span(buffers).subspan(team.rank() * each, each));
      for (int call = 0; call < 400; ++call) ASSERT_EQ(calls.next(), "");
    });
  }
}

// Ends every wait once the team is open.
struct HastyWaiter final : Waiter {
  HastyWaiter() : Waiter({.spins = 20, .yields = 20, .sleep = std::chrono::microseconds(1), .patience = {}}) {}
  bool overdue(const Late& /*late*/) override { return waits; }
  bool waits = true;
};

// Calls in which member 0 needs nothing of member 1. True: `n` has come.
bool broadcast_ahead(Team& team, int n) {
  const Bytes expected(kLittleBytes, static_cast<std::byte>(n));
  Bytes buffer = team.rank() == 0 ? expected : Bytes(kLittleBytes);
  return team.broadcast(buffer, 0) == Outcome::done && buffer == expected;
}
bool scatter_ahead(Team& team, int n) {
  std::array<int, 2> all{n, n};
  int mine = -1;
  const Blocks from = team.rank() == 0 ? Blocks::regular(reinterpret_cast<std::byte*>(all.data()), sizeof n) : Blocks{};
  return team.scatter(from, std::as_writable_bytes(std::span(&mine, 1)), 0) == Outcome::done && mine == n;
}
bool gather_ahead(Team& team, int n) {
  std::array<int, 2> all{n, n};
  const Blocks into = team.rank() == 1 ? Blocks::regular(reinterpret_cast<std::byte*>(all.data()), sizeof n) : Blocks{};
  return team.gather(std::as_bytes(std::span(&n, 1)), into, 1) == Outcome::done && all == std::array{n, n};
}
bool reduce_ahead(Team& team, int n) {
  const double mine = n;
  double sum = 2 * mine;
  const SumOrder order(SumTree::linear(2));
  std::byte* into = team.rank() == 1 ? reinterpret_cast<std::byte*>(&sum) : nullptr;
  const Outcome outcome = team.reduce(std::as_bytes(std::span(&mine, 1)), into, OrderCombine(kDoubleSum, order), 1);
  return outcome == Outcome::done && sum == 2 * mine;
}

TEST(TeamTest, AMemberMayBeManyShortCallsAhead) {
  const UniqueFd fd = ControlArea::create(2).value();
  const ControlArea area = ControlArea::attach(fd.get(), 2).value();
  std::array<HastyWaiter, 2> waiters;
  Team ahead(area, 0, waiters[0]);
  Team behind(area, 1, waiters[1]);
  std::thread opens([&] { ASSERT_EQ(behind.open(), Outcome::done); });
  ASSERT_EQ(ahead.open(), Outcome::done);
  opens.join();
  for (HastyWaiter& waiter : waiters) waiter.waits = false;
  constexpr int kAhead = kArrivals;
  for (auto* call : {broadcast_ahead, scatter_ahead, gather_ahead, reduce_ahead}) {
    for (int n = 1; n <= kAhead; ++n) ASSERT_TRUE(call(ahead, n)) << n;
    for (int n = 1; n <= kAhead; ++n) ASSERT_TRUE(call(behind, n)) << n;
  }
  for (int n = 1; n <= kAhead; ++n) ASSERT_TRUE(broadcast_ahead(ahead, n)) << n;
  EXPECT_FALSE(broadcast_ahead(ahead, 0));
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
    const SumOrder order(SumTree::linear(kSize));
    const OrderCombine sum(kDoubleSum, order);
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

// Blocks of a pair go from one process's private memory to the other's.
bool exchange(Team& team) {
  constexpr std::uint64_t kBytes = 3 * kDirectBytes;
  Bytes from(kBytes * team.size());
  Bytes into(kBytes * team.size());
  for (std::uint32_t other = 0; other < team.size(); ++other) {
    std::fill_n(from.begin() + static_cast<std::ptrdiff_t>(other * kBytes), kBytes,
                std::byte(16 * team.rank() + other));
  }
  if (team.alltoall(Blocks::regular(from.data(), kBytes), Blocks::regular(into.data(), kBytes)) != Outcome::done) {
    return false;
  }
  for (std::uint32_t other = 0; other < team.size(); ++other) {
    const Bytes expected(kBytes, std::byte(16 * other + team.rank()));
    if (!std::equal(expected.begin(), expected.end(), into.begin() + static_cast<std::ptrdiff_t>(other * kBytes))) {
      return false;
    }
  }
  return true;
}

// Returns how many members were right. Without all pids member 1 cannot be reached.
int run_processes(std::uint32_t size, bool knows_pids, bool expects_direct) {
  const UniqueFd meeting = ControlArea::create(size).value();
  const UniqueFd fd = ControlArea::create(size).value();
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (::fork() != 0) continue;
    Waiter waiter(WaitPolicy::shared_core());
    Team first(ControlArea::attach(meeting.get(), size).value(), rank, waiter);
    std::vector<pid_t> pids(size);
    const pid_t own = knows_pids || rank != 1 ? ::getpid() : -1;
    const auto into = Blocks::regular(reinterpret_cast<std::byte*>(pids.data()), sizeof own);
    bool right =
        first.open() == Outcome::done && first.allgather(std::as_bytes(std::span(&own, 1)), into) == Outcome::done;
    CrossMemory memory(pids);
    Team team(ControlArea::attach(fd.get(), size).value(), rank, waiter);
    right = right && team.open(memory) == Outcome::done && team.copies_directly() == expects_direct && exchange(team);
    right = right && team.barrier() == Outcome::done;
    ::_exit(right ? 0 : 1);
  }
  int well = 0;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    int status = 1;
    if (::wait(&status) > 0 && status == 0) ++well;
  }
  return well;
}

TEST(TeamTest, ProcessesCopyDirectly) {
  EXPECT_EQ(run_processes(3, true, true), 3);
}

TEST(TeamTest, NobodyCopiesDirectlyWhereOneCannotBeReached) {
  EXPECT_EQ(run_processes(3, false, false), 3);
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
