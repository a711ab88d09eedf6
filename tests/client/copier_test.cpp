// Start and end of a client's copier. Its copies: tests/host/copier_test.cpp.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "call_filters.hpp"
#include "fake_node.hpp"
#include "support/new_threads.hpp"

namespace outrigger::client::test {
namespace {

using namespace std::chrono_literals;

// Registered before any client's own handler, so it runs after that.
CopyQueue* copy_queue_at_exit = nullptr;
const int registered_early = std::atexit([] {
  if (copy_queue_at_exit != nullptr && copy_queue_at_exit->copier_tid.load() != 0) ::_exit(3);
});

FakeNodeOptions options(std::uint32_t reach, int cpu, std::optional<copy::CoreShare> core_share = {}) {
  FakeNodeOptions options;
  options.reach = reach;
  options.cpu = cpu;
  options.core_share = core_share;
  return options;
}

class CopierOfClient : public ::testing::Test {
 protected:
  explicit CopierOfClient(std::uint32_t reach = kReachAll, int cpu = allowed_cpu(),
                          std::optional<copy::CoreShare> core_share = {})
      : node_(options(reach, cpu, core_share)),
        client_(node_.attach()),
        group_(client_->define_group(GroupId{1, 1}, world(8), GroupRank(3))) {}

  void post() {
    OperationRequest request;
    request.group = group_;
    request.send = BufferLayout{bytes_.data(), 1, 1, {}};
    request.receive = BufferLayout{bytes_.data(), 1, 1, {}};
    auto operation = client_->post(request);
    ASSERT_TRUE(operation);
    const auto slot = node_.take_post();
    ASSERT_TRUE(slot);
    node_.complete(*slot);
    ASSERT_TRUE(finish(*client_, *operation));
  }
  CopyQueue& copy_queue() { return node_.header().copies; }
  bool comes() {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!client_->lending().copier_runs() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return client_->lending().copier_runs();
  }
  void want_and_post() {
    copy_queue().wanted.store(1);
    post();
  }

  std::array<std::byte, 8> bytes_{};
  FakeNode node_;
  AttachedEndpoint client_;
  std::shared_ptr<const Group> group_;
};

class WithoutCopierReach : public CopierOfClient {
 protected:
  WithoutCopierReach() : CopierOfClient(kReachMapped | kReachCma) {}
};
// It could run there: only the keeper's setting prevents it.
class WithoutCore : public CopierOfClient {
 protected:
  WithoutCore() : CopierOfClient(kReachAll, allowed_cpu(), copy::CoreShare::none) {}
};
class OnACoreThatIsNot : public CopierOfClient {
 protected:
  OnACoreThatIsNot() : CopierOfClient(kReachAll, 1000) {}
};

TEST_F(CopierOfClient, ComesWhenItIsWantedAndGoesWithTheClient) {
  const NewThreads threads;
  post();
  EXPECT_FALSE(threads.are_there()) << "nobody wanted it";
  want_and_post();
  ASSERT_TRUE(comes());
  const pid_t tid = copy_queue().copier_tid.load();
  EXPECT_NE(tid, ::getpid());
  const std::filesystem::path task = "/proc/self/task/" + std::to_string(tid);
  std::string name;
  std::ifstream(task / "comm") >> name;
  EXPECT_EQ(name, "outrigger-copy");
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(tid, sizeof(set), &set), 0);
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(allowed_cpu()), &set));
  group_.reset();
  client_.reset();
  EXPECT_EQ(copy_queue().copier_tid.load(), 0);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(task); }));
}

TEST_F(CopierOfClient, LeavesSignalsToTheProgram) {
  want_and_post();
  ASSERT_TRUE(comes());
  std::ifstream status("/proc/self/task/" + std::to_string(copy_queue().copier_tid.load()) + "/status");
  std::uint64_t blocked = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(7), nullptr, 16);
  }
  for (const int signal : {SIGTERM, SIGINT, SIGALRM, SIGUSR1, SIGCHLD, SIGIO}) {
    EXPECT_NE(blocked >> (signal - 1) & 1U, 0U) << signal;
  }
  EXPECT_EQ(blocked >> (SIGSEGV - 1) & 1U, 0U) << "a fault of its own must be seen";
  sigset_t mine;
  ASSERT_EQ(::sigprocmask(SIG_BLOCK, nullptr, &mine), 0);
  EXPECT_FALSE(sigismember(&mine, SIGTERM)) << "the thread that started it";
}

TEST_F(CopierOfClient, AChildHasNoneAndEndsAsItLikes) {
  want_and_post();
  ASSERT_TRUE(comes());
  const pid_t tid = copy_queue().copier_tid.load();
  const pid_t child = ::fork();
  if (child == 0) {
    if (client_->lending().copier_runs()) ::_exit(1);
    group_.reset();
    client_.reset();  // waits for no thread
    std::exit(0);     // and neither do exit handlers
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(::syscall(SYS_tgkill, ::getpid(), tid, 0), 0) << "the parent's is still there";
  post();
}

// A forbidden call could end the program. The filter is the posting thread's own.
TEST_F(CopierOfClient, IsNotStartedByAThreadThatIsFilteredMeanwhile) {
  if (has_call_filter()) GTEST_SKIP() << "there is a filter already";
  bool has_started = false;
  std::thread([&] {
    const NewThreads threads;
    ASSERT_TRUE(forbid_copies(SECCOMP_RET_KILL_PROCESS));
    want_and_post();
    has_started = threads.are_there();
  }).join();
  EXPECT_FALSE(has_started);
}

TEST(Copier, EndsWhenAllThreadsAreFiltered) {
  const pid_t child = ::fork();
  if (child == 0) {
    CopyQueue& copy_queue = *new CopyQueue;
    auto& pages = *new HugePages;
    auto& copier = *new Copier;
    copier.start(copy_queue, pages, allowed_cpu());
    while (!copier.runs()) std::this_thread::yield();
    if (has_call_filter() || !forbid_copies(SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC)) ::_exit(7);
    copy_queue.job(0).kind = static_cast<std::uint32_t>(CopyKind::pull);
    copy_queue.job(0).other_pid = ::getpid();
    copy_queue.given.store(1);
    ring_copier(copy_queue);
    while (copier.runs()) std::this_thread::yield();
    copier.stop();
    ::_exit(copy_queue.taken.load() == 0 && copy_queue.copier_tid.load() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 7) GTEST_SKIP() << "no filter of system calls to be had";
  EXPECT_EQ(status, 0);
}

// A program that ends without MPI_Finalize (here a child of a process without threads): the copier must not write to
// memory that its destructors free.
TEST(Exit, CopierIsNotThereAnyMoreWhenTheProgramsDestructorsRun) {
  const pid_t child = ::fork();
  if (child == 0) {
    // Leaked on purpose, as MPI's are.
    static auto& node = *new FakeNode(options(kReachAll, allowed_cpu()));
    static auto& attached = *new AttachedEndpoint(node.attach());
    static auto& client = *attached;
    node.header().copies.wanted.store(1);
    copy_queue_at_exit = &node.header().copies;
    static auto& request = *new OperationRequest;
    request.group = client.define_group(GroupId{1, 1}, world(8), GroupRank(3));
    static auto& operation = *new auto(client.post(request));
    static_cast<void>(operation);
    while (!client.lending().copier_runs()) std::this_thread::yield();
    std::exit(registered_early);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(WithoutCopierReach, NoneComes) {
  const NewThreads threads;
  want_and_post();
  EXPECT_FALSE(threads.are_there());
}

TEST_F(WithoutCore, NoneComes) {
  const NewThreads threads;
  want_and_post();
  EXPECT_FALSE(threads.are_there());
}

TEST_F(OnACoreThatIsNot, NoneStaysOnTheRanksCore) {
  const NewThreads threads;
  want_and_post();
  EXPECT_TRUE(eventually([&] { return !threads.are_there(); }));
  EXPECT_FALSE(client_->lending().copier_runs());
  EXPECT_EQ(copy_queue().copier_tid.load(), 0);
}

}  // namespace
}  // namespace outrigger::client::test
