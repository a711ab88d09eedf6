// How a service process ended: its signal or status, and its captured stderr.
#include "service/keeper/supervise/captured_stderr.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include "service/keeper/supervise/starter.hpp"

namespace outrigger::service {
namespace {

// A shell script in the place of the daemon.
class Script {
 public:
  explicit Script(const std::string& lines) {
    const int fd = ::mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    EXPECT_EQ(::fchmod(fd, 0755), 0);
    ::close(fd);
    std::ofstream(path_.data()) << "#!/bin/sh\n" << lines << '\n';
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  ~Script() { ::unlink(path_.data()); }

  [[nodiscard]] std::string how_it_ends() const {
    ProcessStarter starter(path_.data());
    const Result<StartedService> started = starter.start(0);
    EXPECT_TRUE(started) << started.error();
    pollfd ended{started.value().exit_event.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 20000), 1);
    return starter.how_it_ended(0);
  }

 private:
  std::array<char, 32> path_{"/tmp/outrigger-script-XXXXXX"};
};

TEST(CapturedStderr, QuotesTheLibraryThatEndsTheProcess) {
  const Script script(
      "echo '[vm:7] ep.c:202 Assertion `count == 0'\"'\"' failed' >&2; echo '#0 abort' >&2; kill -ABRT $$");
  EXPECT_EQ(script.how_it_ends(),
            "was killed by signal 6 (Aborted), saying \"[vm:7] ep.c:202 Assertion `count == 0' failed\",");
}

TEST(CapturedStderr, EmptyOutputIsNotQuoted) {
  EXPECT_EQ(Script("exit 3").how_it_ends(), "exited with status 3");
}

TEST(CapturedStderr, NotQuotedAfterAnExternalKill) {
  EXPECT_EQ(Script("echo 'a warning' >&2; kill -KILL $$").how_it_ends(), "was killed by signal 9 (Killed)");
}

TEST(CapturedStderr, MuchOutputDoesNotBlockTheProcess) {
  const std::string told = Script("yes noise 2>/dev/null | head -c 1000000 >&2; exit 4").how_it_ends();
  EXPECT_TRUE(told.starts_with("exited with status 4, saying \"nois")) << told;  // it may be cut anywhere
}

TEST(CapturedStderr, QuotesTheLastUsefulLine) {
  EXPECT_EQ(telling_line(""), "");
  EXPECT_EQ(telling_line("one\ntwo\n"), "two");
  EXPECT_EQ(telling_line("x.cpp:3: Assertion `a' failed.\nFatal: b\n#0 f\n#1 g\n\n"), "Fatal: b");
  EXPECT_EQ(telling_line("\n\n"), "");
  EXPECT_EQ(telling_line("[vm:7:0:7]   wireup_ep.c:241  Assertion `count == 0' failed\n"
                         "==== backtrace (tid:  7) ====\n"
                         " 0  libucs.so.0(ucs_handle_error+0x2dc) [0x7f6cd5b54e9c]\n"
                         " 1  libucs.so.0(ucs_fatal_error_message+0xb6) [0x7f6cd5b52b06]\n"
                         "=================================\n"),
            "[vm:7:0:7]   wireup_ep.c:241  Assertion `count == 0' failed");
}

TEST(CapturedStderr, AreShortAndPlain) {
  CapturedStderr words = CapturedStderr::open();
  ASSERT_GE(words.for_writer(), 0);
  const std::string text = "\033[31m" + std::string(5000, 'x') + "\n";
  ASSERT_EQ(::write(words.for_writer(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  words.started();
  EXPECT_EQ(words.take(), " [31m" + std::string(155, 'x'));
  EXPECT_EQ(words.take(), "");
}

}  // namespace
}  // namespace outrigger::service
