// Ranks of a group as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "local_store.hpp"

namespace outrigger {

// Each rank ends with the result of `member(store, rank)`; returned by rank, -1 for one that was killed. `children` has
// their ids while they run.
template <class Member>
std::vector<int> run_ranks(std::uint32_t size, const Member& member, std::vector<pid_t>& children) {
  std::string directory = testing::TempDir() + "group-XXXXXX";
  EXPECT_NE(::mkdtemp(directory.data()), nullptr);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    FileStore store(directory);
    ::_exit(member(store, rank));
  }
  std::vector<int> results;
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  std::filesystem::remove_all(directory);
  return results;
}

// The same with a group; 100 for a rank that could not join.
inline std::vector<int> run_processes(std::uint32_t size,
                                      const std::function<int(outrigger_group*, std::uint32_t)>& member,
                                      std::vector<pid_t>& children) {
  const auto join = [&](FileStore& store, std::uint32_t rank) {
    const outrigger_group_config config{.rank = rank, .size = size, .store = store.callbacks(), .timeout_ms = 60'000};
    outrigger_group* group = nullptr;
    const int created = outrigger_group_create(&config, &group);
    return created != OUTRIGGER_GROUP_OK ? 100 : member(group, rank);
  };
  return run_ranks(size, join, children);
}
inline std::vector<int> run_processes(std::uint32_t size,
                                      const std::function<int(outrigger_group*, std::uint32_t)>& member) {
  std::vector<pid_t> children;
  return run_processes(size, member, children);
}

// A call of two ranks that differ in the length of a block, and a barrier.
inline int all_to_all_with_different_lengths(outrigger_group* group, std::uint32_t rank) {
  std::array<std::byte, 64> given{};
  std::array<std::byte, 64> taken{};
  const std::uint64_t sent[] = {8, 8};
  const std::uint64_t expected[] = {8, rank == 0 ? 16U : 8U};
  const std::uint64_t offsets[] = {0, 32};
  const outrigger_group_blocks from{given.data(), 0, sent, offsets};
  const outrigger_group_blocks into{taken.data(), 0, expected, offsets};
  const int result = outrigger_group_all_to_allv(group, &from, &into);
  return result == OUTRIGGER_GROUP_OK ? outrigger_group_barrier(group) : result;
}

}  // namespace outrigger
