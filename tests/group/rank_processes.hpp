// Ranks of a group as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace outrigger
