// Where a process is bound, by a description of a machine as the kernel gives it.
#include "intranode/core_place.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace outrigger::intranode {
namespace {

class Machine {
 public:
  Machine() : root_(::testing::TempDir() + "machine" + std::to_string(::getpid())) {
    std::filesystem::remove_all(root_);
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  void add(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text << '\n';
  }
  // Caches of one CPU, from the first level on.
  void add_cache(int cpu, int level, const std::string& cpus) const {
    add("cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(level) + "/shared_cpu_list", cpus);
  }
  [[nodiscard]] CorePlace place() const { return own_core_place(root_); }

 private:
  std::filesystem::path root_;
};

// Bound to one CPU for the test.
class CorePlaceTest : public ::testing::Test {
 protected:
  CorePlaceTest() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    while (CPU_ISSET(cpu_, &before_) == 0) ++cpu_;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu_, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~CorePlaceTest() override { ::sched_setaffinity(0, sizeof before_, &before_); }

  Machine machine_;
  int cpu_ = 0;

 private:
  cpu_set_t before_{};
};

TEST_F(CorePlaceTest, TheLastCacheAndTheNodeAreFound) {
  machine_.add("node/online", "0,3");
  machine_.add("node/node0/cpulist", "1000-1003");
  machine_.add("node/node3/cpulist", std::to_string(cpu_) + ",900-903");
  machine_.add_cache(cpu_, 0, std::to_string(cpu_));
  machine_.add_cache(cpu_, 1, std::to_string(cpu_) + ",900-903");
  EXPECT_EQ(machine_.place(), (CorePlace{.node = 3, .cache = static_cast<std::uint32_t>(cpu_)}));
}

TEST_F(CorePlaceTest, WithoutCachesTheNodeIsKnown) {
  machine_.add("node/online", "0");
  machine_.add("node/node0/cpulist", "0-999");
  EXPECT_EQ(machine_.place(), (CorePlace{.node = 0}));
  EXPECT_TRUE(machine_.place().is_known());
}

TEST_F(CorePlaceTest, WithoutNodesNothingIsKnown) {
  EXPECT_FALSE(machine_.place().is_known());
  machine_.add("node/online", "0");
  machine_.add("node/node0/cpulist", "1000-1003");
  machine_.add_cache(cpu_, 0, "0-999");
  EXPECT_FALSE(machine_.place().is_known());
  machine_.add("node/node0/cpulist", "no list");
  EXPECT_FALSE(machine_.place().is_known());
}

TEST(UnboundTest, AProcessThatMayRunInSeveralCachesHasNone) {
  cpu_set_t own;
  ASSERT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  if (CPU_COUNT(&own) < 2) GTEST_SKIP() << "one CPU";
  const Machine machine;
  machine.add("node/online", "0");
  machine.add("node/node0/cpulist", "0-1023");
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &own) != 0) machine.add_cache(cpu, 0, std::to_string(cpu));
  }
  EXPECT_EQ(machine.place(), (CorePlace{.node = 0}));
}

}  // namespace
}  // namespace outrigger::intranode
