// A request is found until it is collected, by its handle, which another one may have had before.
#include "trace/request_slots.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace outrigger::trace {
namespace {

RequestNote note(std::uint64_t number) {
  return {number, GroupId{number, 1}, number + 1};
}

TEST(RequestSlots, FindWhatIsThereUntilItIsRemoved) {
  RequestSlots slots;
  ASSERT_TRUE(slots.add(7, note(1)));
  const std::optional<RequestNote> found = slots.find(7);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 1U);
  EXPECT_EQ(found->group, (GroupId{1, 1}));
  EXPECT_EQ(found->sequence, 2U);
  EXPECT_FALSE(slots.find(8));
  EXPECT_TRUE(slots.remove(7, 1));
  EXPECT_FALSE(slots.find(7));
  EXPECT_FALSE(slots.remove(7, 1));
}

TEST(RequestSlots, AHandleThatIsGivenAgainIsThatOfTheNewRequest) {
  RequestSlots slots;
  ASSERT_TRUE(slots.add(7, note(1)));
  ASSERT_TRUE(slots.add(7, note(2)));
  EXPECT_FALSE(slots.remove(7, 1)) << "who has collected the old one comes late";
  ASSERT_TRUE(slots.find(7));
  EXPECT_EQ(slots.find(7)->number, 2U);
  EXPECT_TRUE(slots.remove(7, 2));
  EXPECT_FALSE(slots.find(7)) << "the old one has stayed";
}

TEST(RequestSlots, RefuseWhatHasNoPlaceAndKeepTheRest) {
  RequestSlots slots;
  std::vector<std::uint64_t> kept;
  for (std::uint64_t key = 1; key <= 2 * RequestSlots::kSlots; ++key) {
    if (slots.add(key, note(key))) kept.push_back(key);
  }
  EXPECT_GE(kept.size(), RequestSlots::kSlots / 2);
  EXPECT_LE(kept.size(), RequestSlots::kSlots);
  for (const std::uint64_t key : kept) {
    ASSERT_TRUE(slots.find(key));
    EXPECT_EQ(slots.find(key)->number, key);
    EXPECT_TRUE(slots.remove(key, key));
  }
  EXPECT_TRUE(slots.add(1, note(1000)));
}

TEST(RequestSlots, ThreadsDoNotTakeEachOthersPlaces) {
  constexpr std::uint64_t kThreads = 3;
  RequestSlots slots;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 1; thread <= kThreads; ++thread) {
    threads.emplace_back([&slots, thread] {
      for (std::uint64_t round = 0; round < 20'000; ++round) {
        const std::uint64_t number = round * kThreads + thread;
        if (!slots.add(thread, note(number))) continue;  // another one was just taking the place
        const std::optional<RequestNote> found = slots.find(thread);
        ASSERT_TRUE(found);
        ASSERT_EQ(found->number, number);
        ASSERT_EQ(found->sequence, number + 1);
        ASSERT_TRUE(slots.remove(thread, number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace outrigger::trace
