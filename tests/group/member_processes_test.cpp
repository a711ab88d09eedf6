// Descriptors of processes.
#include "group/member_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <vector>

namespace outrigger::group {
namespace {

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// A process that lives until it is killed.
pid_t child() {
  const pid_t made = ::fork();
  if (made != 0) return made;
  for (;;) ::pause();
}

void kill_unreaped(pid_t pid) {
  ::kill(pid, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
}

TEST(MemberProcessesTest, GroupsShareDescriptors) {
  const std::vector<pid_t> pids{child(), child()};
  const std::ptrdiff_t before = open_files();
  {
    const MemberProcesses first = MemberProcesses::open(pids).value();
    const MemberProcesses second = MemberProcesses::open(pids).value();
    EXPECT_EQ(open_files(), before + 2);
    kill_unreaped(pids[0]);
    EXPECT_TRUE(first.has_ended(0));
    EXPECT_TRUE(second.has_ended(0));
    EXPECT_FALSE(second.has_ended(1));
  }
  EXPECT_EQ(open_files(), before);
  kill_unreaped(pids[1]);
  for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
}

// A group that cannot watch its members must not wait for dead ones.
TEST(MemberProcessesTest, TooManyOpenFilesAreAnError) {
  const pid_t pid = child();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Result<MemberProcesses> opened = MemberProcesses::open({pid});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(),
            "cannot watch process " + std::to_string(pid) + ": Too many open files; `ulimit -n` limits open files");
  kill_unreaped(pid);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace outrigger::group
