// When waiting threads help their service process, and that no thread sleeps through a request. Their copies:
// tests/host/wait_copies_test.cpp.
#include "client/copies/wait_helper.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "call_filters.hpp"
#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongSleep = std::chrono::seconds(60);
// So many bytes that any wait within some hours counts as soon after the post.
constexpr std::uint64_t kBytesForHours = std::uint64_t{1} << 50;

std::uint64_t number_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Acts as the service process, for copies within this process.
class Asking {
 public:
  explicit Asking(SegmentHeader& header) : header_(header), copy_queue_(header.copies) {}

  void give(void* to, const void* from, std::uint64_t bytes) {
    CopyJob& job = copy_queue_.job(given_);
    job = CopyJob{};
    job.kind = static_cast<std::uint32_t>(CopyKind::within);
    job.own_address = number_of(to);
    job.other_address = number_of(from);
    job.bytes = bytes;
    copy_queue_.result(given_).store(static_cast<std::uint32_t>(CopyResult::none));
    copy_queue_.given.store(++given_);
  }
  void ask() {
    copy_queue_.asked.store(given_);
    wake_if_asleep(header_);
  }
  [[nodiscard]] CopyResult result() { return static_cast<CopyResult>(copy_queue_.result(given_ - 1).load()); }
  [[nodiscard]] bool done() {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (result() == CopyResult::none && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return result() != CopyResult::none;
  }

 private:
  SegmentHeader& header_;
  CopyQueue& copy_queue_;
  std::uint32_t given_ = 0;
};

constexpr std::uint32_t kReachOnHost = kReachAll & ~(kReachRdma | kReachAlias);

class WaitingClient : public ::testing::Test {
 protected:
  explicit WaitingClient(bool wait_copies = true, std::uint32_t reach = kReachOnHost, std::int32_t cpu = 0)
      : node_(with_reach(reach, cpu)), client_(attach(wait_copies)), asking_(node_.header()) {}

  static FakeNodeOptions with_reach(std::uint32_t reach, std::int32_t cpu) {
    FakeNodeOptions options;
    options.reach = reach;
    options.cpu = cpu;  // of the copier, which is not wanted
    return options;
  }
  AttachedEndpoint attach(bool wait_copies) const {
    AttachOptions options = node_.attach_options();
    options.wait_copies = wait_copies;
    auto attached = client::attach(options);
    EXPECT_TRUE(attached) << attached.error();
    return std::move(attached).value();
  }
  CopyQueue& copy_queue() { return node_.header().copies; }
  // Posts an operation of two blocks that are far apart.
  void post(std::uint64_t bytes) {
    OperationRequest request;
    request.group = group_;
    request.sequence = sequence_++;
    request.send = request.receive = BufferLayout{&block_, static_cast<std::int64_t>(bytes), sizeof(block_), {}};
    operation_ = client_->post(request);
    ASSERT_NE(operation_, nullptr);
  }

  std::uint64_t block_ = 0;
  std::uint64_t sequence_ = 0;
  FakeNode node_;
  AttachedEndpoint client_;
  std::shared_ptr<const Group> group_ = client_->define_group(GroupId{7, 9}, world(2), GroupRank(0));
  PendingOperationPtr operation_;
  Asking asking_;
};

class SwitchedOff : public WaitingClient {
 protected:
  SwitchedOff() : WaitingClient(false) {}
};
class WithoutCopiers : public WaitingClient {
 protected:
  WithoutCopiers() : WaitingClient(true, kReachMapped | kReachCma) {}
};

// The service process has no core.
class AloneClient : public WaitingClient {
 protected:
  AloneClient() : WaitingClient(true, kReachOnHost, -1) {}
};

TEST_F(WaitingClient, SaysThatItWaitsAndHelpsWhenAsked) {
  const std::uint64_t from = 77;
  std::uint64_t to = 0;
  post(kBytesForHours);
  EXPECT_EQ(copy_queue().rank_waits.load(), 0U);
  EXPECT_EQ(client_->lending().enter_wait(), copy::Waits::at_once);
  EXPECT_EQ(copy_queue().rank_waits.load(), 1U);
  EXPECT_FALSE(client_->lending().help());
  asking_.give(&to, &from, sizeof(to));
  EXPECT_FALSE(client_->lending().help()) << "that is the copier's alone";
  asking_.ask();
  EXPECT_TRUE(client_->lending().help());
  EXPECT_EQ(to, from);
  EXPECT_EQ(asking_.result(), CopyResult::copied);
  EXPECT_EQ(client_->statistics().helped_bytes, sizeof(to));
  EXPECT_FALSE(client_->lending().help());
  client_->lending().leave_wait(copy::Waits::at_once);
  EXPECT_EQ(copy_queue().rank_waits.load(), 0U);
}

// Most copies of a short operation are made by then.
TEST_F(WaitingClient, SaysThatTheProgramHasComputed) {
  EXPECT_EQ(client_->lending().enter_wait(), copy::Waits::late) << "nothing was posted";
  client_->lending().leave_wait(copy::Waits::late);
  post(1 << 20);
  std::this_thread::sleep_for(1ms);
  EXPECT_EQ(client_->lending().enter_wait(), copy::Waits::late);
  EXPECT_EQ(copy_queue().rank_waits.load(), 0U);
  EXPECT_EQ(copy_queue().rank_waits_late.load(), 1U);
  client_->lending().leave_wait(copy::Waits::late);
  EXPECT_EQ(copy_queue().rank_waits_late.load(), 0U);
  post(kBytesForHours);
  post(0);
  std::this_thread::sleep_for(1ms);
  EXPECT_EQ(client_->lending().enter_wait(), copy::Waits::at_once) << "a small operation after a large one";
  client_->lending().leave_wait(copy::Waits::at_once);
}

TEST_F(AloneClient, HelpsWheneverItWaits) {
  EXPECT_EQ(copy_queue().ranks_alone.load(), 1U);
  const std::uint64_t from = 77;
  std::uint64_t to = 0;
  post(1 << 20);
  std::this_thread::sleep_for(1ms);
  ASSERT_EQ(client_->lending().enter_wait(), copy::Waits::at_once);
  asking_.give(&to, &from, sizeof(to));
  asking_.ask();
  EXPECT_TRUE(client_->lending().help());
  EXPECT_EQ(to, from);
  client_->lending().leave_wait(copy::Waits::at_once);
  client_.reset();
  EXPECT_EQ(copy_queue().ranks_alone.load(), 0U);
}

TEST_F(AloneClient, HelpsWhenItTests) {
  const std::uint64_t from = 77;
  std::uint64_t to = 0;
  EXPECT_FALSE(client_->lending().help_where_alone());
  asking_.give(&to, &from, sizeof(to));
  asking_.ask();
  EXPECT_TRUE(client_->lending().help_where_alone());
  EXPECT_EQ(to, from);
}

TEST_F(WaitingClient, DoesNotHelpWhenItTests) {
  const std::uint64_t from = 77;
  std::uint64_t to = 0;
  asking_.give(&to, &from, sizeof(to));
  asking_.ask();
  EXPECT_FALSE(client_->lending().help_where_alone());
  EXPECT_EQ(to, 0U);
}

// It sleeps until then, and nothing else wakes it.
TEST_F(AloneClient, WakesTheServiceProcessAfterTheLastCopy) {
  const std::array<std::uint64_t, 2> from{77, 78};
  std::array<std::uint64_t, 2> to{};
  (void)node_.doorbell_was_rung();
  node_.header().service_sleeping.store(1);
  for (std::size_t i = 0; i < from.size(); ++i) asking_.give(&to[i], &from[i], sizeof(to[i]));
  asking_.ask();
  EXPECT_TRUE(client_->lending().help_where_alone());
  EXPECT_FALSE(node_.doorbell_was_rung());
  EXPECT_TRUE(client_->lending().help_where_alone());
  EXPECT_TRUE(node_.doorbell_was_rung());
  EXPECT_EQ(to, from);
}

void expect_no_help(RankEndpoint& client, CopyQueue& copy_queue, Asking& asking) {
  const std::uint64_t from = 77;
  std::uint64_t to = 0;
  EXPECT_EQ(client.lending().enter_wait(), copy::Waits::no);
  EXPECT_EQ(copy_queue.rank_waits.load(), 0U);
  asking.give(&to, &from, sizeof(to));
  asking.ask();
  EXPECT_FALSE(client.lending().help());
  client.wait_for_completion(1ms);
  EXPECT_EQ(copy_queue.rank_waits.load(), 0U);
  EXPECT_EQ(to, 0U);
  EXPECT_EQ(copy_queue.taken.load(), 0U);
}

TEST_F(SwitchedOff, DoesNotHelp) {
  post(kBytesForHours);
  expect_no_help(*client_, copy_queue(), asking_);
}

TEST_F(WithoutCopiers, DoesNotHelp) {
  post(kBytesForHours);
  expect_no_help(*client_, copy_queue(), asking_);
}

// A lost wake-up would cost a minute.
TEST_F(WaitingClient, NoThreadSleepsThroughAQuestion) {
  constexpr std::size_t kRounds = 3000;
  post(kBytesForHours);
  std::vector<std::uint64_t> from(kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) from[round] = round + 1;
  std::vector<std::uint64_t> to(kRounds);
  std::atomic<bool> over{false};
  std::atomic<int> waiting{2};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      EXPECT_EQ(client_->lending().enter_wait(), copy::Waits::at_once);
      while (!over) {
        if (!client_->lending().help()) client_->wait_for_completion(kLongSleep, true);
      }
      client_->lending().leave_wait(copy::Waits::at_once);
      --waiting;
    });
  }
  for (std::size_t round = 0; round < kRounds && !HasFailure(); ++round) {
    asking_.give(&to[round], &from[round], sizeof(std::uint64_t));
    asking_.ask();
    EXPECT_TRUE(asking_.done()) << "round " << round;
  }
  over = true;
  while (waiting != 0) {
    wake_sleepers(node_.header());
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(client_->statistics().helped_bytes, kRounds * sizeof(std::uint64_t));
  EXPECT_EQ(to, from);
  EXPECT_EQ(copy_queue().rank_waits.load(), 0U);
}

TEST_F(WaitingClient, AChildDoesNotHelp) {
  const std::uint64_t from = 77;
  std::uint64_t to = 0;
  post(kBytesForHours);
  ASSERT_EQ(client_->lending().enter_wait(), copy::Waits::at_once);
  asking_.give(&to, &from, sizeof(to));
  asking_.ask();
  const pid_t child = ::fork();
  if (child == 0) {
    if (client_->lending().help()) ::_exit(1);
    client_->lending().leave_wait(copy::Waits::at_once);
    operation_.reset();
    client_.reset();
    ::_exit(to == 0 ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(copy_queue().rank_waits.load(), 1U) << "the parent's";
  EXPECT_TRUE(client_->lending().help());
  EXPECT_EQ(to, from);
  client_->lending().leave_wait(copy::Waits::at_once);
}

// Without fixtures: a filter would stay in their threads.
TEST(WaitHelper, DoesNotTryWhatTheProgramHasForbiddenItselfSince) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto copy_queue = std::make_unique<CopyQueue>();
    HugePages pages;
    WaitHelper helper;
    helper.allow(*copy_queue, pages, copy::Lenders::copiers);
    helper.posted(kBytesForHours);
    if (helper.enter() != copy::Waits::at_once) ::_exit(3);
    copy_queue->given.store(1);
    copy_queue->asked.store(1);
    if (has_call_filter() || !forbid_copies(SECCOMP_RET_KILL_PROCESS)) ::_exit(7);
    copy_queue->job(0).kind = static_cast<std::uint32_t>(CopyKind::pull);
    copy_queue->job(0).other_pid = ::getpid();
    ::_exit(helper.help() || copy_queue->taken.load() != 0 || helper.wanted() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 7) GTEST_SKIP() << "no filter of system calls to be had";
  EXPECT_EQ(status, 0);
}

// At the program's end the destinations of copies are freed next.
TEST(WaitHelper, StopWaitsForTheCopyUnderWay) {
  constexpr std::uint64_t kBytes = 64U << 20;
  const std::vector<std::byte> from(kBytes, std::byte{3});
  std::vector<std::byte> to(kBytes);
  const auto copy_queue = std::make_unique<CopyQueue>();
  HugePages pages;
  WaitHelper helper;
  helper.allow(*copy_queue, pages, copy::Lenders::copiers);
  copy_queue->job(0).kind = static_cast<std::uint32_t>(CopyKind::within);
  copy_queue->job(0).own_address = number_of(to.data());
  copy_queue->job(0).other_address = number_of(from.data());
  copy_queue->job(0).bytes = kBytes;
  copy_queue->given.store(1);
  copy_queue->asked.store(1);
  std::thread copying([&] { EXPECT_TRUE(helper.help()); });
  while (copy_queue->taken.load() == 0) std::this_thread::yield();
  helper.stop();
  EXPECT_EQ(copy_queue->result(0).load(), static_cast<std::uint32_t>(CopyResult::copied));
  copying.join();
  EXPECT_EQ(to.back(), std::byte{3});
  copy_queue->given.store(2);
  copy_queue->asked.store(2);
  EXPECT_FALSE(helper.wanted() || helper.help());
  EXPECT_EQ(copy_queue->taken.load(), 1U);
}

TEST(WaitHelper, OneThreadCopiesAtATimeAndTheOtherMaySleep) {
  constexpr std::uint64_t kBytes = 64U << 20;
  const std::vector<std::byte> from(kBytes, std::byte{3});
  std::vector<std::byte> to(kBytes);
  const auto copy_queue = std::make_unique<CopyQueue>();
  HugePages pages;
  WaitHelper helper;
  helper.allow(*copy_queue, pages, copy::Lenders::copiers);
  for (std::uint32_t number = 0; number < 2; ++number) {
    copy_queue->job(number).kind = static_cast<std::uint32_t>(CopyKind::within);
    copy_queue->job(number).own_address = number_of(to.data());
    copy_queue->job(number).other_address = number_of(from.data());
  }
  copy_queue->job(0).bytes = kBytes;
  copy_queue->given.store(2);
  copy_queue->asked.store(2);
  std::thread copying([&] { EXPECT_TRUE(helper.help()); });
  while (copy_queue->taken.load() == 0) std::this_thread::yield();
  const bool helped = helper.help();
  EXPECT_TRUE(!helped || copy_queue->result(0).load() != 0) << "two at a time";
  copying.join();
  if (!helped) {
    EXPECT_TRUE(helper.help());
  }
  EXPECT_EQ(copy_queue->taken.load(), 2U);
}

}  // namespace
}  // namespace outrigger::client::test
