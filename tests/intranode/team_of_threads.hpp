// A team whose members are threads, for tests. They share a mapping of the control area: the thread sanitizer tells
// flags apart by their addresses.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "intranode/team.hpp"

namespace outrigger::intranode {

// Runs `member` as each member of a team of that size, which it opens.
inline void run_team(std::uint32_t size, const std::function<void(Team&)>& member) {
  Result<UniqueFd> fd = ControlArea::create(size);
  ASSERT_TRUE(fd.ok()) << fd.error();
  const Result<ControlArea> area = ControlArea::attach(fd.value().get(), size);
  ASSERT_TRUE(area.ok()) << area.error();
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Waiter waiter(WaitPolicy::shared_core());
      Team team(area.value(), rank, waiter);
      member(team);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace outrigger::intranode
