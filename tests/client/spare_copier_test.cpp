// A client's copier on a spare core, for service processes on a DPU: when it looks for jobs, and when it goes.
#include "client/copies/spare_copier.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "call_filters.hpp"
#include "fake_node.hpp"
#include "support/new_threads.hpp"

namespace outrigger::client::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLargeBytes = 64U << 10;

FakeNodeOptions with_dpu() {
  FakeNodeOptions options;
  options.reach = kReachMapped | kReachCma | kReachRdma;
  return options;
}

class SpareCopierOfClient : public ::testing::Test {
 protected:
  explicit SpareCopierOfClient(bool wait_copies = true, std::vector<int> cpus = {allowed_cpu()})
      : node_(with_dpu()),
        client_(attach(wait_copies, std::move(cpus))),
        group_(client_->define_group(GroupId{1, 1}, world(1), GroupRank(0))) {}

  AttachedEndpoint attach(bool wait_copies, std::vector<int> cpus) const {
    AttachOptions options = node_.attach_options();
    options.wait_copies = wait_copies;
    options.spare_cores = {std::move(cpus), 1};
    auto attached = client::attach(options);
    EXPECT_TRUE(attached) << attached.error();
    return std::move(attached).value();
  }
  SlotIndex post(std::size_t bytes = kLargeBytes) {
    OperationRequest request;
    request.group = group_;
    request.sequence = sequence_++;
    request.send = BufferLayout{from_.data(), 0, bytes, {}};
    request.receive = BufferLayout{to_.data(), 0, bytes, {}};
    operation_ = client_->post(request);
    EXPECT_TRUE(operation_);
    const auto slot = node_.take_post();
    EXPECT_TRUE(slot);
    return slot.value_or(SlotIndex{0});
  }
  void complete(SlotIndex slot) {
    node_.complete(slot);
    EXPECT_TRUE(finish(*client_, *operation_));
  }
  CopyQueue& copy_queue() { return node_.header().copies; }
  // As a service process on a DPU does.
  void give(CopyKind kind = CopyKind::within) {
    CopyJob& job = copy_queue().job(given_);
    job = CopyJob{};
    job.kind = static_cast<std::uint32_t>(kind);
    job.other_pid = ::getpid();
    job.own_address = reinterpret_cast<std::uintptr_t>(to_.data());
    job.other_address = reinterpret_cast<std::uintptr_t>(from_.data());
    job.bytes = from_.size();
    copy_queue().result(given_).store(static_cast<std::uint32_t>(CopyResult::none));
    copy_queue().given.store(++given_);
    copy_queue().asked.store(given_);
  }
  CopyResult result() { return static_cast<CopyResult>(copy_queue().result(given_ - 1).load()); }
  static bool comes(const std::function<bool()>& what) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!what() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return what();
  }
  bool lends(bool wanted) {
    return comes([&] { return (node_.header().copier_lends.load() != 0) == wanted; });
  }
  bool copied() {
    return comes([&] { return result() == CopyResult::copied; });
  }
  // It sleeps after each look, also if it takes no turn.
  static std::uint64_t pauses() {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(task.path() / "status");
      std::string line;
      bool its = false;
      while (std::getline(status, line)) {
        its = its || line == "Name:\toutrigger-copy";
        if (its && line.starts_with("voluntary")) return std::stoull(line.substr(line.find('\t')));
      }
    }
    return 0;
  }
  static bool looks_again() {
    const std::uint64_t before = pauses();
    return comes([&] { return pauses() - before > 3; });
  }
  OperationSlot& last_slot() {
    return SegmentView(reinterpret_cast<std::byte*>(&node_.header())).slot(SlotIndex{kSlotCount - 1});
  }
  std::uint32_t turns() { return node_.header().rank_lends_turns.load(); }

  std::vector<std::byte> from_ = std::vector<std::byte>(kLargeBytes, std::byte{7});
  std::vector<std::byte> to_ = std::vector<std::byte>(kLargeBytes);
  std::uint64_t sequence_ = 0;
  std::uint32_t given_ = 0;
  FakeNode node_;
  AttachedEndpoint client_;
  std::shared_ptr<const Group> group_;
  PendingOperationPtr operation_;
};

// In a child that has a filter already, so that further ones are not noticed.
class KilledSpareCopier : public SpareCopierOfClient {
 public:
  void TestBody() override {}

  // 0 if all is as expected.
  int run() {
    const SlotIndex slot = post();
    if (!lends(true) || !forbid_copies(SECCOMP_RET_KILL_THREAD, SECCOMP_FILTER_FLAG_TSYNC)) return 7;
    give(CopyKind::pull);
    if (!comes([&] { return (copy_queue().copier_holds.load() & kCopierDied) != 0; })) return 1;
    if (copy_queue().hands.load() != 1 || result() != CopyResult::none) return 2;
    (void)take_back_all(copy_queue());
    if (!hands_are_out(copy_queue())) return 3;
    complete(slot);
    complete(post());
    if (node_.header().copier_lends.load() != 0) return 4;
    operation_.reset();
    group_.reset();
    client_.reset();  // waits for no thread
    return 0;
  }
};

class SpareCopierOff : public SpareCopierOfClient {
 protected:
  SpareCopierOff() : SpareCopierOfClient(false) {}
};
class WithoutSpareCore : public SpareCopierOfClient {
 protected:
  WithoutSpareCore() : SpareCopierOfClient(true, {}) {}
};
class SpareCoreThatIsNot : public SpareCopierOfClient {
 protected:
  SpareCoreThatIsNot() : SpareCopierOfClient(true, {1000}) {}
};

TEST_F(SpareCopierOfClient, CopiesWhileAnOperationIsPostedAndSleepsAfterIt) {
  const SlotIndex slot = post();
  ASSERT_TRUE(lends(true));
  give();
  EXPECT_TRUE(copied());
  EXPECT_EQ(client_->statistics().spare_bytes, kLargeBytes);
  complete(slot);
  ASSERT_TRUE(lends(false));
  ASSERT_TRUE(comes([&] { return copy_queue().copier_sleeps.load() != 0; }));
  const SlotIndex next = post();
  ASSERT_TRUE(lends(true)) << "the post wakes it";
  give();
  EXPECT_TRUE(copied());
  complete(next);
  operation_.reset();
  client_.reset();  // its thread has ended
  EXPECT_EQ(to_, from_);
}

TEST_F(SpareCopierOfClient, LeavesJobsToItsRankThatWaits) {
  const SlotIndex slot = post();
  ASSERT_TRUE(lends(true));
  ASSERT_EQ(client_->lending().enter_wait(), copy::Waits::at_once);
  ASSERT_TRUE(looks_again());
  const std::uint32_t before = turns();
  give();
  ASSERT_TRUE(looks_again());
  EXPECT_EQ(result(), CopyResult::none);
  EXPECT_EQ(turns(), before) << "those of the rank count, which may have no core";
  client_->lending().leave_wait(copy::Waits::at_once);
  EXPECT_TRUE(copied());
  complete(slot);
}

TEST_F(SpareCopierOfClient, LooksOnlyAtSlotsThatHaveBeenUsed) {
  last_slot().state.store(static_cast<std::uint32_t>(SlotState::posted));
  const SlotIndex slot = post();
  ASSERT_TRUE(lends(true));
  complete(slot);
  EXPECT_TRUE(comes([&] { return copy_queue().copier_sleeps.load() != 0; }));
  last_slot().state.store(static_cast<std::uint32_t>(SlotState::free));
}

TEST_F(SpareCopierOfClient, DoesNotTakeJobsForWhichNobodyIsAsked) {
  const SlotIndex slot = post();
  ASSERT_TRUE(lends(true));
  copy_queue().given.store(given_ + 1);  // and not `asked`
  ASSERT_TRUE(looks_again());
  EXPECT_EQ(copy_queue().taken.load(), 0U);
  copy_queue().given.store(given_);
  complete(slot);
}

TEST_F(SpareCopierOfClient, DoesNotTakeRecalledJobs) {
  const SlotIndex slot = post();
  ASSERT_TRUE(lends(true));
  give();
  ASSERT_TRUE(copied());
  copy_queue().recalled.store(given_ + 1);
  give();
  ASSERT_TRUE(looks_again());
  EXPECT_EQ(result(), CopyResult::none) << "it was recalled";
  complete(slot);
}

TEST_F(SpareCopierOfClient, SmallOperationsNeedNone) {
  const NewThreads threads;
  complete(post(8U << 10));
  EXPECT_FALSE(threads.are_there());
}

// A forbidden call could end the program. The filter is the posting thread's own.
TEST_F(SpareCopierOfClient, IsNotStartedByAThreadThatIsFilteredMeanwhile) {
  if (has_call_filter()) GTEST_SKIP() << "there is a filter already";
  bool has_started = false;
  std::thread([&] {
    const NewThreads threads;
    ASSERT_TRUE(forbid_copies(SECCOMP_RET_KILL_PROCESS));
    complete(post());
    has_started = threads.are_there();
  }).join();
  EXPECT_FALSE(has_started);
}

TEST(SpareCopier, LeavesNoHandIfAFilterKillsItInACopy) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer waits for the thread that the filter has killed";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    if (has_call_filter() || !forbid_copies(SECCOMP_RET_ALLOW)) ::_exit(7);
    ::_exit(KilledSpareCopier().run());
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 7) GTEST_SKIP() << "no filter of system calls to be had";
  EXPECT_EQ(status, 0);
}

TEST_F(SpareCopierOff, IsThereOnlyIfRanksMayCopy) {
  const NewThreads threads;
  complete(post());
  EXPECT_FALSE(threads.are_there());
}

TEST_F(WithoutSpareCore, NeedsACore) {
  const NewThreads threads;
  complete(post());
  EXPECT_FALSE(threads.are_there());
}

TEST_F(SpareCoreThatIsNot, EndsIfItMayNotUseTheCore) {
  const NewThreads threads;
  const SlotIndex slot = post();
  EXPECT_TRUE(comes([&] { return !threads.are_there(); }));
  EXPECT_EQ(node_.header().copier_lends.load(), 0U);
  complete(slot);
}

TEST_F(SpareCopierOfClient, EndsWithTheDpu) {
  const NewThreads threads;
  const SlotIndex slot = post();
  ASSERT_TRUE(lends(true));
  node_.header().dpu_calls.fetch_or(kDpuLost);
  EXPECT_TRUE(lends(false));
  EXPECT_TRUE(comes([&] { return !threads.are_there(); }));
  complete(slot);
}

TEST_F(SpareCopierOfClient, GoesWithTheClientInTheMiddleOfAnOperation) {
  const NewThreads threads;
  (void)post();
  ASSERT_TRUE(lends(true));
  operation_.reset();
  group_.reset();
  client_.reset();
  EXPECT_EQ(node_.header().copier_lends.load(), 0U);
  EXPECT_TRUE(comes([&] { return !threads.are_there(); }));
}

TEST_F(SpareCopierOfClient, AForkedChildHasNoneAndEndsAsItLikes) {
  const SlotIndex slot = post();
  ASSERT_TRUE(lends(true));
  const pid_t child = ::fork();
  if (child == 0) {
    operation_.reset();
    group_.reset();
    client_.reset();  // waits for no thread
    ::_exit(0);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  give();
  EXPECT_TRUE(copied()) << "the parent's goes on";
  complete(slot);
}

}  // namespace
}  // namespace outrigger::client::test
