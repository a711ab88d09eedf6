#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "intranode/member_posts.hpp"
#include "posted_sequence.hpp"

namespace outrigger::intranode {
namespace {

PostsMemory memory_for(std::uint32_t members) {
  const UniqueFd fd = PostsMemory::create(members).value();
  return PostsMemory::attach(fd.get(), members).value();
}

std::uint64_t post(Posts& posts, std::size_t bytes, int value) {
  if (!posts.goes_on()) return 0;
  std::byte* const into = posts.begin(bytes);
  std::memset(into, value, bytes);
  return posts.publish(CallWord(CollectiveCall::allgather, 0, bytes));
}

TEST(PostsTest, ManyAreKeptForAMemberThatComesLate) {
  const PostsMemory memory = memory_for(2);
  Posts early(memory, 0);
  Posts late(memory, 1);
  constexpr std::uint64_t kMany = 10'000;
  for (std::uint64_t i = 1; i <= kMany; ++i) ASSERT_EQ(post(early, i % 200, static_cast<int>(i % 100)), i);
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    ASSERT_EQ(post(late, 1, 1), i);
    ASSERT_TRUE(late.has_come(0, i));
    const std::byte* bytes = late.bytes(0, i, i % 200);
    for (std::size_t at = 0; at < i % 200; ++at) ASSERT_EQ(bytes[at], static_cast<std::byte>(i % 100)) << i;
    late.leave(i);
  }
}

TEST(PostsTest, MembersStopAtTheSameOperation) {
  const PostsMemory memory = memory_for(2);
  Posts early(memory, 0);
  Posts late(memory, 1);
  for (std::uint64_t i = 1; i <= kMorePlaces; ++i) ASSERT_EQ(post(early, 1, 1), i);
  EXPECT_FALSE(early.goes_on());
  for (std::uint64_t i = 1; i <= kMorePlaces; ++i) {
    ASSERT_EQ(post(late, 1, 1), i);
    early.leave(i);
    late.leave(i);
  }
  EXPECT_FALSE(late.goes_on()) << "it has room, but the other one had none";
}

TEST(PostsTest, MembersGoOnWhileTheyCollect) {
  const PostsMemory memory = memory_for(2);
  Posts early(memory, 0);
  Posts late(memory, 1);
  for (std::uint64_t i = 1; i <= 5 * kWindow; ++i) {
    ASSERT_EQ(post(early, 1, 1), i);
    if (i <= kWindow) continue;
    ASSERT_EQ(post(late, 1, 1), i - kWindow);
    early.leave(i - kWindow);
    late.leave(i - kWindow);
  }
}

TEST(PostsTest, ACallInAnotherWayBeforeAnOperationShows) {
  const PostsMemory memory = memory_for(2);
  Posts posts(memory, 0);
  Posts other(memory, 1);
  const CallWord call(CollectiveCall::allreduce, 0, 9000);
  ASSERT_EQ(post(posts, 1, 1), 1U);
  EXPECT_EQ(posts.does_other(1, posts.others()), std::nullopt) << "the other one is late";
  other.does_otherwise(call);
  EXPECT_EQ(posts.does_other(1, posts.others()), 1U);
  EXPECT_TRUE(posts.other_call(1, posts.others()).is_same_call(call));
  ASSERT_EQ(post(other, 1, 1), 1U);
  EXPECT_EQ(posts.does_other(1, posts.others()), std::nullopt);
  for (std::size_t i = 0; i < kOtherCalls; ++i) other.does_otherwise(call);
  EXPECT_EQ(posts.does_other(2, posts.others()), 1U);
  EXPECT_FALSE(posts.other_call(1, posts.others()).is_compared()) << "its word is gone";
}

TEST(PostsTest, OperationsAreCollectedInAnyOrder) {
  const PostsMemory memory = memory_for(1);
  Posts posts(memory, 0);
  for (int round = 0; round < 1000; ++round) {
    std::uint64_t last = 0;
    for (int i = 0; i < 40; ++i) last = post(posts, 100, i);
    ASSERT_NE(last, 0U);
    for (int i = 39; i >= 0; --i, --last) {
      ASSERT_EQ(posts.bytes(0, last, 100)[99], static_cast<std::byte>(i));
      posts.leave(last);
    }
  }
}

TEST(PostsTest, ARootIsNotFarAhead) {
  const PostsMemory memory = memory_for(2);
  Posts root(memory, 0);
  Posts other(memory, 1);
  std::uint64_t number = 1;
  while (root.is_close(number)) ASSERT_EQ(post(root, 8, 1), number++);
  EXPECT_LE(number, kPlaces);
  EXPECT_EQ(other.pass(), 1U);
  EXPECT_TRUE(root.is_close(number));
  EXPECT_FALSE(root.is_close(number + 1));
}

TEST(PostsTest, ThreadsCollectWhatTheyPosted) {
  constexpr std::uint32_t kMembers = 3;
  const PostsMemory memory = memory_for(kMembers);
  std::vector<std::string> wrong(kMembers);
  std::vector<std::thread> members;
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    members.emplace_back([&, rank] {
      Posts posts(memory, rank);
      const auto never = [] {
        std::this_thread::yield();
        return false;
      };
      wrong[rank] = PostedSequence(posts, 7, never).run(20'000);
    });
  }
  for (std::thread& member : members) member.join();
  for (const std::string& one : wrong) EXPECT_EQ(one, "");
}

}  // namespace
}  // namespace outrigger::intranode
