#include "intranode/sums/tree_table.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "intranode/sums/tree_file.hpp"

namespace outrigger::intranode {
namespace {

TreeKey key_of(std::uint64_t elements) {
  return {"allreduce", 4, {ReduceOperation::sum, ElementType::float64}, elements};
}

TEST(Table, LearnsAfterEnoughCalls) {
  TreeTable table;
  constexpr std::size_t kCost = 20;
  for (std::uint64_t call = 1; call <= TreeTable::kLookUpAfter; ++call)
    ASSERT_EQ(table.next(key_of(8), kCost).step, TreeStep::native) << call;
  const auto look_up = table.next(key_of(8), kCost);
  ASSERT_EQ(look_up.step, TreeStep::look_up);
  TreeTable::not_found(*look_up.entry);
  for (std::uint64_t call = TreeTable::kLookUpAfter + 2; call <= TreeTable::kCallsForEach * kCost; ++call)
    ASSERT_EQ(table.next(key_of(8), kCost).step, TreeStep::native) << call;
  // Other numbers of elements have their own trees.
  ASSERT_EQ(table.next(key_of(9), kCost).step, TreeStep::native);
  const auto learn = table.next(key_of(8), kCost);
  ASSERT_EQ(learn.step, TreeStep::learn);
  TreeTable::settle(*learn.entry, SumTree::balanced(4), SumRefusal::none);
  const auto use = table.next(key_of(8), kCost);
  ASSERT_EQ(use.step, TreeStep::use);
  EXPECT_EQ(use.entry->tree, SumTree::balanced(4));
}

TEST(Table, IsNativeForGoodAfterARefusal) {
  TreeTable table(true);
  const auto look_up = table.next(key_of(8), 10);
  ASSERT_EQ(look_up.step, TreeStep::look_up);
  TreeTable::not_found(*look_up.entry);
  const auto learn = table.next(key_of(8), 10);
  ASSERT_EQ(learn.step, TreeStep::learn);
  TreeTable::settle(*learn.entry, std::nullopt, SumRefusal::varies);
  for (int call = 0; call < 1000; ++call) ASSERT_EQ(table.next(key_of(8), 10).step, TreeStep::native);
  EXPECT_EQ(name_of(table.entries().front().refusal), "varies");
}

TEST(Table, IsNativeWhereNothingCanBeLearned) {
  TreeTable table(true);
  for (int call = 0; call < 100; ++call) ASSERT_EQ(table.next(key_of(8), 0).step, TreeStep::native);
}

TEST(Table, DropsTheLeastRecentlyUsed) {
  TreeTable table;
  TreeTable::settle(*table.next(key_of(0), 10).entry, SumTree::balanced(4), SumRefusal::none);
  TreeTable::settle(*table.next(key_of(1), 10).entry, SumTree::balanced(4), SumRefusal::none);
  for (std::uint64_t elements = 2; elements < TreeTable::kMostKeys + 1; ++elements) {
    ASSERT_EQ(table.next(key_of(0), 10).step, TreeStep::use);
    ASSERT_EQ(table.next(key_of(elements), 10).step, TreeStep::native);
  }
  EXPECT_EQ(table.entries().size(), TreeTable::kMostKeys);
  EXPECT_EQ(table.next(key_of(0), 10).step, TreeStep::use);
  EXPECT_EQ(table.next(key_of(1), 10).step, TreeStep::native);
  EXPECT_EQ(table.entries().size(), TreeTable::kMostKeys);
}

class File : public testing::Test {
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
  static TreeFile opened(const std::string& mpi = "Some MPI 1.0") {
    return {"one node", mpi, [](const std::string&) { ++refused; }};
  }
  [[nodiscard]] std::filesystem::path only_file() const {
    std::filesystem::path found;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "outrigger")) {
      if (entry.path().extension() == ".txt") found = entry.path();
    }
    return found;
  }

  std::filesystem::path directory;
  static inline int refused = 0;
};

TEST_F(File, KeepsTreesForLaterJobs) {
  TreeFile first = opened();
  EXPECT_FALSE(first.find(key_of(8)));
  first.note(key_of(8), SumTree::linear(4));
  first.note(key_of(9), std::nullopt);
  first.save();
  TreeFile other = opened();
  other.note(key_of(10), SumTree::balanced(4));
  other.save();
  TreeFile second = opened();
  EXPECT_EQ(second.find(key_of(8)).value().tree, SumTree::linear(4));
  EXPECT_EQ(second.find(key_of(9)).value().tree, std::nullopt);
  EXPECT_EQ(second.find(key_of(10)).value().tree, SumTree::balanced(4));
  EXPECT_FALSE(second.find(key_of(11)));
  EXPECT_FALSE(opened("Some MPI 2.0").find(key_of(8)));
  EXPECT_EQ(refused, 0);
}

TEST_F(File, LeavesAnotherOneAlone) {
  TreeFile first = opened();
  first.note(key_of(8), SumTree::linear(4));
  first.save();
  const std::filesystem::path path = only_file();
  std::ofstream(path, std::ios::app) << "allreduce 4 sum float64 8 (0,0)\n";
  TreeFile second = opened();
  EXPECT_FALSE(second.find(key_of(8)));
  EXPECT_EQ(refused, 1);
  const auto size = std::filesystem::file_size(path);
  second.note(key_of(9), SumTree::linear(4));
  second.save();
  EXPECT_EQ(std::filesystem::file_size(path), size);
}

}  // namespace
}  // namespace outrigger::intranode
