#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/file_text.hpp"
#include "client/start/attach.hpp"
#include "support/eventually.hpp"

namespace outrigger::client::test {
namespace {

// A directory with a script in place of outriggerd.
class KeeperStart : public ::testing::Test {
 protected:
  KeeperStart() {
    std::string pattern = ::testing::TempDir() + "outrigger-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    options_.daemon_path = directory_ + "/outriggerd";
    options_.world_size = 4;
    options_.local_size = 2;
  }
  ~KeeperStart() override { std::filesystem::remove_all(directory_); }

  void write_script(const std::string& text) {
    std::ofstream(options_.daemon_path) << "#!/bin/sh\ncd " << directory_ << "\n" << text << "\n";
    ASSERT_EQ(::chmod(options_.daemon_path.c_str(), 0700), 0);
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(directory_ + "/" + name).rdbuf();
    return text.str();
  }

  std::string directory_;
  KeeperOptions options_;
};

TEST_F(KeeperStart, GivesArgumentsSecretSocketAndNothingElse) {
  write_script(R"(echo "$@" > arguments
env > environment
head -c 16 <&4 > secret
ls -l /proc/$$/fd > descriptors
ps -o pid=,pgid=,sid= -p $$ > session
exit 0)");
  options_.services = 2;
  options_.service_cpus = "6,7";
  options_.reach_allowed = kReachMapped;
  options_.init_timeout_ms = 54321;
  ::setenv("LD_PRELOAD", "", 1);
  ::setenv("OUTRIGGER_ENABLE", "1", 1);
  ::setenv("OUTRIGGER_LOG", "debug", 1);
  ::setenv("KEEPER_START_TEST", "kept", 1);
  const auto address = start_keeper(options_);
  ::unsetenv("LD_PRELOAD");
  ASSERT_TRUE(address.ok()) << address.error();
  EXPECT_EQ(read("arguments"),
            "keep --world-size 4 --local-size 2 --nodes 1 --keepers-here 1 --number-here 0 --services 2 --reach mapped "
            "--init-timeout-ms 54321 "
            "--leader-pid " +
                std::to_string(::getpid()) + " --service-cpus 6,7\n");
  const Secret& secret = address.value().secret;
  EXPECT_EQ(read("secret"), std::string(secret.begin(), secret.end()));
  const std::string environment = read("environment");
  EXPECT_EQ(environment.find("LD_PRELOAD"), std::string::npos);
  EXPECT_EQ(environment.find("OUTRIGGER_ENABLE"), std::string::npos);
  EXPECT_NE(environment.find("OUTRIGGER_LOG=debug"), std::string::npos);
  EXPECT_NE(environment.find("KEEPER_START_TEST=kept"), std::string::npos);
  const std::string descriptors = read("descriptors");
  EXPECT_NE(descriptors.find(" 0 -> /dev/null"), std::string::npos) << descriptors;
  EXPECT_NE(descriptors.find(" 2 -> /dev/null"), std::string::npos) << descriptors;
  EXPECT_NE(descriptors.find(" 3 -> socket:"), std::string::npos) << descriptors;
  EXPECT_NE(descriptors.find(" 4 -> pipe:"), std::string::npos) << descriptors;
  EXPECT_EQ(descriptors.find(" 5 -> "), std::string::npos) << descriptors;
  const std::string name(address.value().name.data());
  EXPECT_TRUE(name.starts_with("outrigger-" + std::to_string(::geteuid()) + "-")) << name;
  std::istringstream session(read("session"));
  pid_t pid = 0;
  pid_t group = -1;
  pid_t sid = -1;
  session >> pid >> group >> sid;
  EXPECT_EQ(group, pid);  // out of reach of signals to the program
  EXPECT_EQ(sid, ::getsid(0));
}

TEST_F(KeeperStart, EveryAddressIsAnother) {
  write_script("exit 0");
  const auto first = start_keeper(options_);
  const auto second = start_keeper(options_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value().name, second.value().name);
  EXPECT_NE(first.value().secret, second.value().secret);
}

TEST_F(KeeperStart, MissingProgramIsNamed) {
  const auto address = start_keeper(options_);
  ASSERT_FALSE(address.ok());
  EXPECT_NE(address.error().find(options_.daemon_path), std::string::npos) << address.error();
  EXPECT_NE(address.error().find("No such file"), std::string::npos) << address.error();
}

TEST_F(KeeperStart, FailingProgramIsNamed) {
  write_script("exit 5");
  const auto address = start_keeper(options_);
  ASSERT_FALSE(address.ok());
  EXPECT_NE(address.error().find(options_.daemon_path + " ended with status 5"), std::string::npos) << address.error();
}

TEST_F(KeeperStart, ProgramThatStaysInTheForegroundIsNamed) {
  write_script("exec sleep 60");
  options_.init_timeout_ms = 200;
  const auto address = start_keeper(options_);
  ASSERT_FALSE(address.ok());
  EXPECT_NE(address.error().find("did not go to the background within 200 ms"), std::string::npos) << address.error();
}

TEST_F(KeeperStart, KilledProgramIsNamed) {
  write_script("kill -9 $$");
  const auto address = start_keeper(options_);
  ASSERT_FALSE(address.ok());
  EXPECT_NE(address.error().find("was killed by signal 9"), std::string::npos) << address.error();
}

TEST_F(KeeperStart, ProgramThatIgnoresChildrenIsNoProblem) {
  write_script("exit 0");
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGCHLD, &ignore, &before), 0);
  const auto address = start_keeper(options_);
  ASSERT_EQ(::sigaction(SIGCHLD, &before, nullptr), 0);
  EXPECT_TRUE(address.ok()) << address.error();
}

// In a process of its own, so that it reaps only its own children.
class UnseenStart {
 public:
  // The start as the program sees it: "" if it sees nothing.
  static std::string seen_by(const KeeperOptions& options, const std::string& directory) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    struct sigaction count {};
    count.sa_handler = [](int) { ++signals; };
    count.sa_flags = SA_NOCLDSTOP;
    ::sigaction(SIGCHLD, &count, nullptr);
    std::atomic<bool> over = false;
    std::atomic<int> reaped = 0;
    std::thread reaper([&] {
      while (!over) {
        if (::waitpid(-1, nullptr, WNOHANG) > 0) ++reaped;
      }
    });
    const auto address = start_keeper(options);
    std::ofstream(directory + "/end").flush();
    const bool ended = eventually([&] { return has_ended(directory + "/keeper"); });
    over = true;
    reaper.join();
    int adopts = 0;
    ::prctl(PR_GET_CHILD_SUBREAPER, &adopts, 0, 0, 0);
    std::string seen = address.ok() ? "" : address.error();
    if (signals != 0) seen += " signals: " + std::to_string(signals);
    if (reaped != 0) seen += " children reaped: " + std::to_string(reaped);
    if (::waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) seen += " a child is left";
    if (!ended) seen += " the keeper has not ended";
    return adopts == 1 ? seen : seen + " no orphans are adopted any more";
  }

 private:
  // The process whose number is in a file.
  static bool has_ended(const std::string& file) {
    std::string pid;
    std::ifstream(file) >> pid;
    const std::string stat = text_of_file("/proc/" + pid + "/stat");
    return !pid.empty() && (stat.empty() || stat.substr(stat.rfind(')')).starts_with(") Z"));
  }

  static inline std::atomic<int> signals = 0;
};

TEST_F(KeeperStart, ProgramSeesNothing) {
  // The keeper outlives the program that starts it.
  write_script("(for i in $(seq 30000); do [ -e end ] && break; sleep 0.01; done) & echo $! > keeper");
  const std::string file = directory_ + "/seen";
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream(file) << UnseenStart::seen_by(options_, directory_) << std::flush;
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(read("seen"), "");
}

TEST_F(KeeperStart, NoPathIsAnError) {
  options_.daemon_path.clear();
  EXPECT_FALSE(start_keeper(options_).ok());
}

// Ranks know the address before a keeper has started. If its start fails, ranks that are connected notice at once, and
// so do later ones; none waits for the timeout.
TEST_F(KeeperStart, NobodyWaitsForAListenerWithoutKeeper) {
  auto listener = open_keeper_listener();
  ASSERT_TRUE(listener.ok()) << listener.error();
  AttachOptions options;
  options.keeper = listener.value().address;
  options.init_timeout_ms = 30000;
  options.world_size = 1;
  options.local_size = 1;
  const auto begin = std::chrono::steady_clock::now();
  std::string early;
  std::thread rank([&] { early = attach(options).error(); });
  pollfd connection{listener.value().socket.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&connection, 1, 60'000), 1) << "the rank does not connect";
  EXPECT_FALSE(start_keeper(options_, std::move(listener).value()).ok());  // no such program
  rank.join();
  EXPECT_NE(early.find("closed the connection"), std::string::npos) << early;
  const auto late = attach(options);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().find("no keeper listens"), std::string::npos) << late.error();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// The socket exists before the keeper runs: ranks may connect at once; it ends with its last descriptor.
TEST_F(KeeperStart, SocketEndsWithTheKeeper) {
  write_script("exit 0");
  const auto address = start_keeper(options_);
  ASSERT_TRUE(address.ok());
  AttachOptions options;
  options.keeper = address.value();
  options.init_timeout_ms = 50;
  const auto client = attach(options);
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().find("no keeper listens"), std::string::npos) << client.error();
}

}  // namespace
}  // namespace outrigger::client::test
