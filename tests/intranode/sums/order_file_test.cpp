// Orders that later jobs find: their number is limited, and jobs may keep theirs at the same time.
#include "intranode/sums/order_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "support/cache_directory.hpp"

namespace outrigger::intranode {
namespace {

class KeptOrders : public CacheDirectoryTest {
 protected:
  static OrderFile opened(const std::string& mpi = "Some MPI") { return {"one node", mpi, &refuse}; }
  void date_all_lines(std::int64_t date_s) const {
    const std::string text =
        std::regex_replace(text_of_file(), std::regex(" [0-9]{9,}\n"), " " + std::to_string(date_s) + "\n");
    std::ofstream(only_file()) << text;
  }
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

const MemberOrders kLinear{SumOrder(SumTree::linear(4))};
const MemberOrders kPrefixes{SumOrder(SumTree::linear(1)), SumOrder(SumTree::linear(2)), SumOrder(SumTree::linear(3)),
                             SumOrder(SumTree::balanced(4))};

TEST(MemberOrders, AreReadAsWritten) {
  EXPECT_EQ(text_of(kPrefixes), "0|(0,1)|((0,1),2)|((0,1),(2,3))");
  EXPECT_EQ(parse_orders(text_of(kPrefixes)), kPrefixes);
  EXPECT_EQ(parse_orders(text_of(kLinear)), kLinear);
  for (const char* malformed : {"", "|", "0|", "|0", "0||0", "0|(0,0)", "native"})
    EXPECT_FALSE(parse_orders(malformed)) << malformed;
}

OrderKey short_key(std::uint64_t elements) {
  return {"allreduce", 4, Reduction{ReduceOperation::sum, ElementType::float64}, elements};
}

// The last line's.
std::int64_t date_s(const std::string& text) {
  return std::stoll(text.substr(text.rfind(' ')));
}

TEST_F(KeptOrders, AreFoundByLaterJobs) {
  OrderFile first = opened();
  EXPECT_FALSE(first.find(short_key(8)));
  first.note(short_key(8), kLinear);
  first.note(short_key(9), {});
  first.save();
  OrderFile other = opened();
  other.note(short_key(10), kPrefixes);
  other.save();
  OrderFile second = opened();
  EXPECT_EQ(second.find(short_key(8)), kLinear);
  EXPECT_EQ(second.find(short_key(9)), MemberOrders());
  EXPECT_EQ(second.find(short_key(10)), kPrefixes);
  EXPECT_FALSE(second.find(short_key(11)));
  EXPECT_FALSE(opened("Some MPI 2").find(short_key(8)));
  EXPECT_EQ(refused, 0);
}

TEST_F(KeptOrders, AreNotPutIntoAFileOfAnother) {
  OrderFile first = opened();
  first.note(short_key(8), kLinear);
  first.save();
  const std::filesystem::path path = only_file();
  std::ofstream(path, std::ios::app) << "allreduce 4 sum float64 8 (0,0)\n";
  OrderFile second = opened();
  EXPECT_FALSE(second.find(short_key(8)));
  EXPECT_EQ(refused, 1);
  const auto size = std::filesystem::file_size(path);
  second.note(short_key(9), kLinear);
  second.save();
  EXPECT_EQ(std::filesystem::file_size(path), size);
}

// As short ones are for each communicator.
TEST_F(KeptOrders, LearnedAgainAreDatedOnceADay) {
  keep(1, 2);
  const std::int64_t now_s = date_s(text_of_file());
  for (const std::int64_t seconds : {0, 3'600, 3 * 86'400}) {
    date_all_lines(now_s - seconds);
    keep(1, 2);
    const std::int64_t kept_s = date_s(text_of_file());
    if (seconds < 86'400) {
      EXPECT_EQ(kept_s, now_s - seconds);
    } else {
      EXPECT_GE(kept_s, now_s);
    }
  }
}

TEST_F(KeptOrders, UnusedOnesMakeRoom) {
  const std::uint64_t half = OrderFile::kMostBytes / text_of(long_orders()).size() / 2;
  keep(1, half);
  EXPECT_GT(std::filesystem::file_size(only_file()), OrderFile::kMostBytes * 2 / 5);
  date_all_lines(1'000'000'000);
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
