// Random posts of small teams under many orders of their steps, and what happens if a step is left out.
#include <gtest/gtest.h>

#include <array>

#include "explorer.hpp"
#include "posted_sequence.hpp"

namespace outrigger::intranode {
namespace {

constexpr int kOperations = 42;  // more than kMorePlaces

struct ExploredPosts {
  explicit ExploredPosts(std::uint32_t members)
      : size(members), fd(PostsMemory::create(size).value()), memory(PostsMemory::attach(fd.get(), size).value()) {}
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {reinterpret_cast<std::byte*>(&memory.member(0)), PostsMemory::bytes(size)};
  }
  std::uint32_t size;
  UniqueFd fd;
  PostsMemory memory;
};

std::string run_posts(Explorer& explorer, ExploredPosts& posts, Choices& choices, std::uint64_t seed) {
  std::memset(posts.bytes().data(), 0, posts.bytes().size());
  explorer.watch(posts.bytes(), {});
  std::vector<std::uint64_t> done;
  return explorer.run(posts.size, choices, [&](std::uint32_t rank) -> std::string {
    Posts own(posts.memory, rank);
    int looks = 0;
    PostedSequence sequence(own, seed, [&looks] { return ++looks > 20'000; });
    if (std::string wrong = sequence.run(kOperations); !wrong.empty()) return wrong;
    done.push_back(sequence.done());
    return done.back() == done.front() ? "" : "members have done different numbers of operations";
  });
}

// The first error in `runs`, or nothing.
std::string explore_posts(Explorer& explorer, std::uint64_t runs) {
  std::array<ExploredPosts, 2> posts{ExploredPosts(2), ExploredPosts(3)};
  RandomChoices choices(1, runs);
  for (std::uint64_t seed = 0; choices.next_run(3); ++seed) {
    if (std::string wrong = run_posts(explorer, posts[seed % 2], choices, seed); !wrong.empty()) {
      return "seed " + std::to_string(seed) + ": " + wrong;
    }
  }
  return "";
}

TEST(PostsExplorerTest, NoOrderOfStepsGivesAWrongResult) {
  Explorer explorer;
  EXPECT_EQ(explore_posts(explorer, 500), "");
}

TEST(PostsExplorerTest, EveryStepIsNeeded) {
  Explorer explorer;
  ASSERT_EQ(explore_posts(explorer, 100), "");
  const std::set<std::string> sites = explorer.sites();
  EXPECT_EQ(sites.size(), 5U);
  for (const std::string& site : sites) {
    for (const Mutation mutation : {Mutation::dropped, Mutation::unordered}) {
      explorer.mutate(mutation, site);
      EXPECT_NE(explore_posts(explorer, 20'000), "")
          << site << (mutation == Mutation::dropped ? " dropped" : " unordered");
    }
  }
}

}  // namespace
}  // namespace outrigger::intranode
