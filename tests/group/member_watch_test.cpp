// Lines to members of other nodes.
#include "group/member_watch.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace outrigger::group {
namespace {

// The failure that member 0 of two nodes takes from a word of member 1's.
Failure failure_by(std::uint64_t word) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd other(ends[1]);
  std::vector<GuardedFd> lines(2);
  lines[1] = GuardedFd(UniqueFd(ends[0]));

  const Layout layout(0, {0, 1});
  const UniqueFd memory = GroupArea::create(1).value();
  MemberWatch watch(layout, GroupArea::attach(memory.get(), 1).value(), MemberProcesses::open({::getpid()}).value(),
                    std::move(lines));
  EXPECT_EQ(::write(other.get(), &word, sizeof word), static_cast<ssize_t>(sizeof word));
  watch.look();
  return watch.failure();
}

TEST(MemberWatchTest, AFailureIsTaken) {
  const Failure failure{.kind = FailureKind::late, .about = 0, .noticed = 1, .seconds = 3};
  EXPECT_EQ(failure_by(failure.word()).word(), failure.word());
}

// A word about a member that is not there, and one of no kind.
TEST(MemberWatchTest, AMalformedWordNamesItsSender) {
  const Failure expected{.kind = FailureKind::aborted, .about = 1, .noticed = 1};
  EXPECT_EQ(failure_by(Failure{.kind = FailureKind::died, .about = 200}.word()).word(), expected.word());
  EXPECT_EQ(failure_by(Failure{.kind = FailureKind::died, .noticed = 2}.word()).word(), expected.word());
  EXPECT_EQ(failure_by(std::uint64_t{1} << 8).word(), expected.word());
}

}  // namespace
}  // namespace outrigger::group
