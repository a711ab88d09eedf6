// A client of the live listener gets one frame. One that does anything else gets nothing, and cannot make the keeper
// work more often.
#include "service/keeper/observe/live_listener.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/abstract_name.hpp"
#include "service/keeper/observe/live_node.hpp"

namespace outrigger::service {
namespace {

using Clock = LiveListener::Clock;

class Live : public ::testing::Test {
 protected:
  Live() { listener_.open(job_); }

  UniqueFd ask() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto name = AbstractName::of("outrigger-live:" + job_ + ":" + std::to_string(::getpid()));
    EXPECT_EQ(::connect(socket.get(), name->address(), name->bytes()), 0);
    return socket;
  }

  // As the keeper does, by the test's clock. Returns the number of wake-ups.
  int work(std::chrono::milliseconds time) {
    const Clock::time_point end = now_ + time;
    for (int wakes = 1;; ++wakes) {
      const std::vector<Event> events = events_.wait(0);
      for (const Event& event : events) {
        EXPECT_EQ(event.source, Source::reader);
        listener_.handle_event();
      }
      listener_.look(now_);
      if (!events.empty()) continue;
      now_ = std::min(listener_.next_look().value_or(end), end);
      if (now_ == end) return wakes;
    }
  }

  static std::string all_of(const UniqueFd& socket) {
    std::string text;
    std::vector<char> chunk(1 << 16);
    for (ssize_t bytes = 1; bytes > 0;) {
      bytes = ::recv(socket.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (bytes > 0) text.append(chunk.data(), static_cast<std::size_t>(bytes));
    }
    return text;
  }

  std::string job_ = "test-" + std::to_string(::getpid());
  int made_ = 0;
  std::size_t frame_bytes_ = 1000;
  Clock::time_point now_{std::chrono::hours(1)};
  Events events_{[this] { return now_; }};
  int prepared_ = 0;
  bool preparation_is_over_ = true;
  LiveListener listener_{events_,
                         [this] {
                           ++made_;
                           return std::vector<std::byte>(frame_bytes_, std::byte{'x'});
                         },
                         {[this] { ++prepared_; }, [this] { return preparation_is_over_; }}};
};

TEST_F(Live, SendsOneFrameToEachReader) {
  const UniqueFd reader = ask();
  (void)work(std::chrono::milliseconds(100));
  EXPECT_EQ(all_of(reader), std::string(frame_bytes_, 'x'));
  EXPECT_EQ(made_, 1);
}

TEST_F(Live, WaitsForPreparationWithALimit) {
  preparation_is_over_ = false;
  const UniqueFd first = ask();
  (void)work(LiveListener::kForPreparation / 2);
  EXPECT_EQ(prepared_, 1);
  EXPECT_EQ(made_, 0);
  preparation_is_over_ = true;
  (void)work(std::chrono::milliseconds(10));
  EXPECT_EQ(all_of(first).size(), frame_bytes_);

  preparation_is_over_ = false;
  const UniqueFd second = ask();
  const int wakes = work(LiveListener::kBetweenLooks + LiveListener::kForPreparation + std::chrono::milliseconds(100));
  EXPECT_EQ(all_of(second).size(), frame_bytes_) << "it has what there is";
  EXPECT_EQ(prepared_, 2);
  EXPECT_LE(wakes, 5) << "it is not looked at all the time";
}

TEST_F(Live, MakesAtMostTwentyFramesASecond) {
  const Clock::time_point end = now_ + std::chrono::seconds(1);
  while (now_ < end) {
    const UniqueFd reader = ask();
    (void)work(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(made_, 20);
}

TEST_F(Live, SleepsWithoutReaders) {
  EXPECT_EQ(work(std::chrono::milliseconds(200)), 1);
  EXPECT_EQ(listener_.next_look(), std::nullopt);
  EXPECT_EQ(made_, 0);
}

TEST_F(Live, WaitsForASlowReader) {
  frame_bytes_ = 4U << 20U;
  const UniqueFd reader = ask();
  std::string text;
  for (int i = 0; i < 400 && text.size() < frame_bytes_; ++i) {
    (void)work(std::chrono::milliseconds(5));
    text += all_of(reader);
  }
  EXPECT_EQ(text.size(), frame_bytes_);
}

TEST_F(Live, DropsReadersThatDoNotRead) {
  frame_bytes_ = 4U << 20U;
  const UniqueFd reader = ask();
  const int wakes = work(LiveListener::kForOneReader + std::chrono::milliseconds(200));
  EXPECT_LE(wakes, 20) << "it is not looked at while it does not read";
  EXPECT_EQ(listener_.next_look(), std::nullopt);
  EXPECT_LT(all_of(reader).size(), frame_bytes_);
}

TEST_F(Live, DropsReadersThatSend) {
  frame_bytes_ = 4U << 20U;
  const UniqueFd reader = ask();
  ASSERT_EQ(::send(reader.get(), "hello", 5, MSG_NOSIGNAL), 5);
  (void)work(std::chrono::milliseconds(100));
  EXPECT_EQ(listener_.next_look(), std::nullopt);
  EXPECT_LT(all_of(reader).size(), frame_bytes_);
}

TEST(LiveNode, CoreUseIsTheKernels) {
  EXPECT_EQ(parse_schedstat("12345 678 9").ran_ns, 12345U);
  EXPECT_EQ(parse_schedstat("12345 678 9").waited_ns, 678U);
  EXPECT_EQ(parse_schedstat("12345").ran_ns, 0U);
  EXPECT_EQ(parse_schedstat("").ran_ns, 0U);
  EXPECT_EQ(parse_schedstat("x 1 2").waited_ns, 0U);
  EXPECT_EQ(core_use_of(1 << 30).ran_ns, 0U);
}

}  // namespace
}  // namespace outrigger::service
