// Buffers that ranks often copy from and to.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>
#include <vector>

#include "base/huge_page.hpp"
#include "protocol/options/settings.hpp"
#include "rank_processes.hpp"
#include "support/huge_bytes.hpp"

namespace outrigger {
namespace {

constexpr std::uint64_t kBytes = 8U << 20;

std::span<float> new_memory() {
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::span numbers(static_cast<float*>(memory), kBytes / sizeof(float));
  std::ranges::fill(numbers, 1.0F);
  return numbers;
}

bool has_huge_pages(std::span<const float> numbers) {
  const auto begin = reinterpret_cast<std::uintptr_t>(numbers.data());
  return huge_bytes_between(begin, begin + kBytes) > 0;
}

// Calls that double each number. 0: the sums are right, and some of the memory is in huge pages; 1: none is.
int reduce_often(outrigger_group* group) {
  const std::span<float> numbers = new_memory();
  for (int call = 0; call < 10; ++call) {
    if (outrigger_group_all_reduce(group, numbers.data(), numbers.data(), numbers.size(), OUTRIGGER_GROUP_FLOAT32,
                                   OUTRIGGER_GROUP_SUM) != OUTRIGGER_GROUP_OK) {
      return 2;
    }
  }
  if (std::ranges::count(numbers, 1024.0F) != std::ssize(numbers)) return 3;
  return has_huge_pages(numbers) ? 0 : 1;
}

std::vector<int> results_of_two(const char* huge_pages) {
  ::setenv(setting::kHugePages, huge_pages, 1);
  std::vector<int> results =
      run_processes(2, [](outrigger_group* group, std::uint32_t /*rank*/) { return reduce_often(group); });
  ::unsetenv(setting::kHugePages);
  return results;
}

class GroupMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (huge_page_support().bytes == 0) GTEST_SKIP() << huge_page_support().why_not;
    if (has_huge_pages(new_memory())) GTEST_SKIP() << "this kernel gives all memory huge pages";
  }
};

TEST_F(GroupMemoryTest, BuffersOfManyCallsMoveToHugePages) {
  EXPECT_EQ(results_of_two("on"), (std::vector<int>{0, 0}));
}

TEST_F(GroupMemoryTest, UnlessTheUserForbidsIt) {
  EXPECT_EQ(results_of_two("off"), (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace outrigger
