#include "base/unread_output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/unique_fd.hpp"

namespace outrigger {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kWords = "the job cannot go on\n";
constexpr auto kLate = 50ms;

struct TwoEnds {
  UniqueFd writes;
  UniqueFd reads;
};

TwoEnds make_pipe() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::pipe2(fds.data(), O_CLOEXEC), 0);
  return {UniqueFd(fds[1]), UniqueFd(fds[0])};
}

TwoEnds make_socket() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {UniqueFd(fds[1]), UniqueFd(fds[0])};
}

void say(const TwoEnds& ends) {
  ASSERT_EQ(::write(ends.writes.get(), kWords.data(), kWords.size()), static_cast<ssize_t>(kWords.size()));
}

class UnreadOutput : public ::testing::TestWithParam<TwoEnds (*)()> {};

TEST_P(UnreadOutput, AreWaitedForUntilTheyAreRead) {
  const TwoEnds ends = GetParam()();
  say(ends);
  std::atomic<bool> read{false};
  std::thread late([&] {
    std::this_thread::sleep_for(kLate);
    read = true;
    std::array<char, 100> text{};
    EXPECT_EQ(::read(ends.reads.get(), text.data(), text.size()), static_cast<ssize_t>(kWords.size()));
  });
  wait_until_read(ends.writes.get(), 60s);
  EXPECT_TRUE(read);
  late.join();
}

TEST_P(UnreadOutput, AreNotWaitedForForLong) {
  const TwoEnds ends = GetParam()();
  say(ends);
  const auto began = Clock::now();
  wait_until_read(ends.writes.get(), kLate);
  EXPECT_GE(Clock::now() - began, kLate);
}

TEST_P(UnreadOutput, WithNothingToReadThereIsNothingToWaitFor) {
  const TwoEnds ends = GetParam()();
  const auto began = Clock::now();
  wait_until_read(ends.writes.get(), 60s);
  EXPECT_LT(Clock::now() - began, 30s);
}

INSTANTIATE_TEST_SUITE_P(, UnreadOutput, ::testing::Values(&make_pipe, &make_socket),
                         [](const auto& made) { return made.index == 0 ? "ByPipe" : "BySocket"; });

TEST(OutputInFiles, AreNotWaitedFor) {
  const UniqueFd file(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto began = Clock::now();
  wait_until_read(file.get(), 60s);
  wait_until_read(-1, 60s);
  EXPECT_LT(Clock::now() - began, 30s);
}

}  // namespace
}  // namespace outrigger
