// Events of a service process on another machine: taken out of its memory, sent, and put on this machine's clock.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <span>
#include <utility>
#include <vector>

#include "protocol/wire/message_io.hpp"
#include "trace/drain.hpp"
#include "trace/remote_clock.hpp"
#include "trace/remote_events.hpp"

namespace outrigger::trace {
namespace {

Event moved(std::uint64_t subject) {
  Event made;
  made.kind = static_cast<std::uint8_t>(EventKind::move);
  made.began_ns = 1;
  made.ended_ns = 2;
  made.subject = subject;
  return made;
}

std::vector<std::uint64_t> subjects(const std::vector<Event>& events) {
  std::vector<std::uint64_t> found;
  for (const Event& event : events) found.push_back(event.subject);
  return found;
}

using Subjects = std::vector<std::uint64_t>;

TEST(Drain, HasEachEventOnceInItsOrder) {
  Result<Memory> made = Memory::create();
  ASSERT_TRUE(made);
  Buffer writer = made.value().service_buffer();
  Drain drain(std::move(made).value());
  EXPECT_FALSE(drain.more());
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(writer.add(moved(i)));
  EXPECT_EQ(subjects(drain.next(3)), (Subjects{0, 1, 2}));
  EXPECT_TRUE(drain.more());
  EXPECT_EQ(subjects(drain.next(3)), (Subjects{3, 4}));
  EXPECT_FALSE(drain.more());
  ASSERT_TRUE(writer.add(moved(5)));
  EXPECT_EQ(subjects(drain.next(100)), (Subjects{5}));
  EXPECT_EQ(drain.take_dropped(), 0U);
}

// The last place may be in the making; one before it is that of a process that was killed there.
TEST(Drain, WaitsForWhatIsBeingWrittenAndLeavesOutWhatWillNeverBe) {
  Result<Memory> made = Memory::create();
  ASSERT_TRUE(made);
  Buffer writer = made.value().service_buffer();
  Event* places = made.value().service_events();
  Drain drain(std::move(made).value());
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(writer.add(moved(i)));
  places[1].kind = 0;
  EXPECT_EQ(subjects(drain.next(100)), (Subjects{0}));
  EXPECT_FALSE(drain.more());
  places[1].kind = static_cast<std::uint8_t>(EventKind::move);
  EXPECT_EQ(subjects(drain.next(100)), (Subjects{1}));
  for (std::uint64_t i = 2; i < 4; ++i) ASSERT_TRUE(writer.add(moved(i)));
  places[2].kind = 0;
  EXPECT_EQ(subjects(drain.next(100)), (Subjects{3}));
  ASSERT_TRUE(writer.add(moved(4)));
  places[4].kind = static_cast<std::uint8_t>(EventKind::call);  // what ranks note
  EXPECT_TRUE(drain.next(100).empty());
}

TEST(Drain, GivesMemoryBackAndCountsWhatDidNotFit) {
  Result<Memory> made = Memory::create();
  ASSERT_TRUE(made);
  Buffer writer = made.value().service_buffer();
  const int fd = made.value().fd();
  Drain drain(std::move(made).value());
  for (std::uint64_t i = 0; i < kEvents; ++i) ASSERT_TRUE(writer.add(moved(i)));
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(writer.add(moved(0)));
  struct stat before {};
  ASSERT_EQ(::fstat(fd, &before), 0);
  std::uint64_t expected = 0;
  while (drain.more()) {
    for (const Event& event : drain.next(kMostRemoteEvents)) ASSERT_EQ(event.subject, expected++);
  }
  EXPECT_EQ(expected, kEvents);
  EXPECT_EQ(drain.take_dropped(), 7U);
  EXPECT_FALSE(writer.add(moved(0)));
  EXPECT_EQ(drain.take_dropped(), 1U);
  struct stat after {};
  ASSERT_EQ(::fstat(fd, &after), 0);
  EXPECT_GE((before.st_blocks - after.st_blocks) * 512, static_cast<std::int64_t>(kEvents * sizeof(Event)));
}

TEST(RemoteEvents, ComeBackAsTheyWere) {
  const std::optional<RemoteEvents> again = decoded<RemoteEvents>(encoded(RemoteEvents{7, 3, {moved(1), moved(2)}}));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->world_rank, 7U);
  EXPECT_EQ(again->dropped, 3U);
  EXPECT_EQ(subjects(again->events), (Subjects{1, 2}));
}

TEST(RemoteEvents, OfOtherSizesOrKindsAreRefused) {
  const auto decodes = [](const std::vector<Event>& events) {
    return decoded<RemoteEvents>(encoded(RemoteEvents{0, 9, events})).has_value();
  };
  EXPECT_TRUE(decodes({moved(1)}));
  EXPECT_TRUE(decodes({}));
  EXPECT_TRUE(decodes(std::vector<Event>(kMostRemoteEvents, moved(1))));
  EXPECT_FALSE(decodes(std::vector<Event>(kMostRemoteEvents + 1, moved(1))));
  std::vector<std::byte> bytes = encoded(RemoteEvents{0, 9, {moved(1)}});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decoded<RemoteEvents>(std::span(bytes).first(length))) << length;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decoded<RemoteEvents>(bytes)) << "more than it says";
  for (const EventKind kind : {EventKind::none, EventKind::call, EventKind::collected, EventKind::phase}) {
    Event event = moved(1);
    event.kind = static_cast<std::uint8_t>(kind);
    EXPECT_FALSE(decodes({event})) << static_cast<int>(kind);
  }
  Event backwards = moved(1);
  backwards.ended_ns = 0;
  EXPECT_FALSE(decodes({backwards}));
}

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(RemoteClock, ChangesEvenlyBetweenComparisonsAndStaysBeyondThem) {
  RemoteClock clock;
  EXPECT_FALSE(clock.compared());
  clock.compare({10 * kSecond, -7 * kSecond, 500});
  EXPECT_TRUE(clock.compared());
  EXPECT_EQ(clock.here(5 * kSecond), -2 * kSecond);
  EXPECT_EQ(clock.here(20 * kSecond), 13 * kSecond);
  clock.compare({20 * kSecond, -7 * kSecond + 100'000, 700});
  EXPECT_EQ(clock.here(15 * kSecond), 8 * kSecond + 50'000);
  EXPECT_EQ(clock.here(5 * kSecond), -2 * kSecond);
  EXPECT_EQ(clock.here(30 * kSecond), 23 * kSecond + 100'000);
  EXPECT_EQ(clock.error_ns(), 700);
}

// A second later the last one is wrong by a tenth of a millisecond more at most.
TEST(RemoteClock, LeavesOutAComparisonThatSaysNoMoreThanTheLastOne) {
  RemoteClock clock;
  clock.compare({0, 1000, 5'000});
  clock.compare({kSecond, 9'000'000, 20'000'000});
  EXPECT_EQ(clock.here(kSecond), kSecond + 1000);
  EXPECT_EQ(clock.error_ns(), 5'000 + RemoteClock::kMostDriftPerSecondNs);
  clock.compare({2 * kSecond, 3000, 100'000});
  EXPECT_EQ(clock.here(2 * kSecond), 2 * kSecond + 3000);
  EXPECT_EQ(clock.here(kSecond), kSecond + 2000);
}

TEST(RemoteClock, ForgetsTheOldestAtItsLimit) {
  RemoteClock clock;
  const auto last = static_cast<std::int64_t>(RemoteClock::kMostSamples) + 10;
  for (std::int64_t i = 0; i <= last; ++i) clock.compare({i * kSecond, i, 1});
  EXPECT_EQ(clock.here(0), 11);
  EXPECT_EQ(clock.here(last * kSecond), last * kSecond + last);
}

}  // namespace
}  // namespace outrigger::trace
