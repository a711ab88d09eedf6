// Orders that later jobs find: their number is limited, and jobs may keep theirs at the same time.
#include "intranode/sums/order_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace outrigger::intranode {
namespace {

class KeptOrders : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "sums-XXXXXX";
    directory = ::mkdtemp(name.data());
    ::setenv("XDG_CACHE_HOME", directory.c_str(), 1);
    refused = 0;
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(directory);
  }
  static OrderFile opened() {
    return {"one node", "Some MPI", [](const std::string&) { ++refused; }};
  }
  [[nodiscard]] std::filesystem::path only_file() const {
    std::filesystem::path found;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "outrigger")) {
      if (entry.path().extension() == ".txt") found = entry.path();
    }
    return found;
  }
  void date_all_lines(const std::string& date) const {
    std::stringstream text;
    text << std::ifstream(only_file()).rdbuf();
    std::ofstream(only_file()) << std::regex_replace(text.str(), std::regex(" [0-9]{9,}\n"), " " + date + "\n");
  }

  std::filesystem::path directory;
  static inline std::atomic<int> refused = 0;
};

constexpr std::uint32_t kMembers = 64;

OrderKey kept_key(std::uint64_t elements) {
  return {"scan", kMembers, Reduction{ReduceOperation::sum, ElementType::float64}, elements};
}

// An order for each member.
const MemberOrders& long_orders() {
  static const MemberOrders orders(kMembers, SumOrder(SumTree::linear(kMembers)));
  return orders;
}

void keep(std::uint64_t first, std::uint64_t count) {
  OrderFile file("one node", "Some MPI", [](const std::string&) {});
  for (std::uint64_t i = first; i < first + count; ++i) file.note(kept_key(i), long_orders());
  file.save();
}

TEST_F(KeptOrders, AreFoundByLaterJobs) {
  keep(1, 3);
  OrderFile later = opened();
  EXPECT_EQ(later.find(kept_key(2)), long_orders());
  EXPECT_FALSE(later.find(kept_key(4)));
  EXPECT_EQ(refused, 0);
}

TEST_F(KeptOrders, UnusedOnesMakeRoom) {
  const std::uint64_t half = OrderFile::kMostBytes / text_of(long_orders()).size() / 2;
  keep(1, half);
  EXPECT_GT(std::filesystem::file_size(only_file()), OrderFile::kMostBytes * 2 / 5);
  date_all_lines("1000000000");
  OrderFile user = opened();
  ASSERT_TRUE(user.find(kept_key(1)));
  ASSERT_TRUE(user.find(kept_key(half)));
  user.save();
  keep(1000, 2 * half - 4);
  EXPECT_LE(std::filesystem::file_size(only_file()), OrderFile::kMostBytes);
  OrderFile later = opened();
  EXPECT_TRUE(later.find(kept_key(1)));
  EXPECT_TRUE(later.find(kept_key(half)));
  EXPECT_FALSE(later.find(kept_key(2)));
  for (std::uint64_t i = 1000; i < 1000 + 2 * half - 4; ++i) EXPECT_TRUE(later.find(kept_key(i))) << i;
  EXPECT_EQ(refused, 0);
}

// A job whose lock was not free keeps nothing, so each tries until it has.
TEST_F(KeptOrders, OfJobsThatEndAtOnceAreAllKept) {
  constexpr std::uint64_t kEach = 5;
  std::vector<std::thread> jobs;
  for (std::uint64_t job = 0; job < 4; ++job) {
    jobs.emplace_back([job] {
      for (std::uint64_t i = job * kEach; i < (job + 1) * kEach; ++i) {
        do keep(i, 1);
        while (!opened().find(kept_key(i)));
      }
    });
  }
  for (std::thread& job : jobs) job.join();
  OrderFile later = opened();
  for (std::uint64_t i = 0; i < 4 * kEach; ++i) EXPECT_EQ(later.find(kept_key(i)), long_orders()) << i;
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace outrigger::intranode
