// Teams of threads, each with its own mapping of the control area, against plain references.
#include "intranode/team.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace outrigger::intranode {
namespace {

using Bytes = std::vector<std::byte>;

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

Bytes random_bytes(std::mt19937_64& random, std::size_t bytes) {
  Bytes data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
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

TEST(TeamTest, ABroadcastBringsTheRootsBytes) {
  for (const std::uint32_t size : {1U, 2U, 3U, 5U}) {
    run_team(size, [&](Team& team) {
      std::mt19937_64 random(size);
      for (int round = 0; round < 60; ++round) {
        const std::size_t bytes = random() % (round % 3 == 0 ? 200'000 : 100);
        const auto root = static_cast<std::uint32_t>(random() % size);
        const Bytes sent = random_bytes(random, bytes);
        Bytes buffer = team.rank() == root ? sent : Bytes(bytes);
        ASSERT_EQ(team.broadcast(buffer, root), Outcome::done);
        ASSERT_EQ(buffer, sent);
      }
    });
  }
}

}  // namespace
}  // namespace outrigger::intranode
