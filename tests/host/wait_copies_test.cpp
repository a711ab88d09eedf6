// Copies that waiting threads of a rank make beside its copier: when they are asked, what becomes of jobs that they
// leave, and the hand-over in every order of steps.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/copies/wait_helper.hpp"
#include "copiers_fixture.hpp"
#include "fabric/host/lanes/lender.hpp"

namespace outrigger::wait_copies_test {
namespace {

using namespace std::chrono_literals;
using fabric::Chunk;
using fabric::LenderQueue;
using fabric::MoveStatus;
using testing::address_of;
using testing::Ended;
using testing::kBytes;
using testing::kElsewhere;
using testing::kHere;

constexpr RegionId kRegion{2};
// For some hours after a post of so many bytes, a wait counts as immediate.
constexpr std::uint64_t kBytesForHours = std::uint64_t{1} << 50;

// ---------------------------------------------------------------- the hand-over, in every order

// One job queue, its service process, its copier and a thread that waits, each a list of steps. Jobs are numbers that
// stand in their addresses.
class HandOver {
 public:
  static constexpr std::array<std::size_t, 3> kSteps{6, 4, 4};

  HandOver() : copier_(copy_queue_, ::getpid(), 0ms), taker_(copy_queue_) {
    copy_queue_.copier_tid.store(static_cast<pid_t>(::syscall(SYS_gettid)));
  }

  void step(std::size_t who, std::size_t number) {
    if (who == 0) return serve(number);
    Hand& hand = hands_[who - 1];
    if (number % 2 == 0) {
      hand.has = who == 1 ? taker_.take(hand.job, hand.number) : take_as_waiter(hand);
    } else {
      finish(hand);
    }
  }

  // Whatever has been left, the copier does; then everything must be accounted for.
  void end() {
    for (Hand& hand : hands_) finish(hand);
    for (int round = 0; round < 3; ++round) {
      Hand last;
      while ((last.has = taker_.take(last.job, last.number))) finish(last);
      collect();
    }
    EXPECT_EQ(copier_.pending(), 0U);
    for (std::uint64_t job = 0; job < jobs_; ++job) {
      EXPECT_EQ(finished_[job] + returned_[job], 1) << "job " << job;
      EXPECT_EQ(copied_[job], finished_[job]) << "job " << job;
    }
  }

 private:
  struct Hand {
    bool has = false;
    CopyJob job;
    std::uint32_t number = 0;
  };

  void serve(std::size_t number) {
    switch (number) {
      case 0: give(); return give();
      case 1: asked_ = true; return copier_.ask_rank();
      case 2: return collect();  // takes back jobs that are not taken: its patience is 0
      case 3:
        give();
        asked_ = true;
        return copier_.ask_rank();
      case 4: asked_ = false; return copier_.ask_no_more();
      default: return collect();
    }
  }

  void give() {
    if (!copier_.usable() || copier_.room() == 0) return;
    CopyJob job;
    job.own_address = jobs_;
    Chunk chunk;
    chunk.offset = jobs_++;
    copier_.give(job, chunk);
  }

  bool take_as_waiter(Hand& hand) {
    const bool taken = taker_.take_asked(hand.job, hand.number);
    EXPECT_TRUE(asked_ || !taken) << "it was not asked";
    return taken;
  }

  void finish(Hand& hand) {
    if (!std::exchange(hand.has, false)) return;
    ++copied_[hand.job.own_address];
    taker_.finish(hand.number, CopyResult::copied);
  }

  void collect() {
    std::vector<LenderQueue::Finished> finished;
    std::vector<Chunk> returned;
    (void)copier_.collect(finished, returned);
    for (const auto& one : finished) ++finished_[one.chunk.offset];
    for (const Chunk& chunk : returned) ++returned_[chunk.offset];
  }

  CopyQueue copy_queue_{};
  LenderQueue copier_;
  CopyTaker taker_;
  std::array<Hand, 2> hands_;
  bool asked_ = false;
  std::uint64_t jobs_ = 0;
  std::array<int, 4> copied_{};
  std::array<int, 4> finished_{};
  std::array<int, 4> returned_{};
};

// Calls `run` with every order of the actors' steps: a word of one digit a step.
template <class Run>
void each_order(std::array<std::size_t, 3> left, std::string& order, const Run& run) {
  bool any = false;
  for (std::size_t who = 0; who < left.size(); ++who) {
    if (left[who] == 0) continue;
    any = true;
    --left[who];
    order.push_back(static_cast<char>('0' + who));
    each_order(left, order, run);
    order.pop_back();
    ++left[who];
  }
  if (!any) run(order);
}

TEST(HandOver, EveryJobIsDoneOnceInEveryOrderOfSteps) {
  std::string order;
  std::size_t orders = 0;
  each_order(HandOver::kSteps, order, [&orders](const std::string& steps) {
    if (::testing::Test::HasFailure()) return;
    HandOver hand_over;
    std::array<std::size_t, 3> done{};
    for (const char letter : steps) {
      const auto who = static_cast<std::size_t>(letter - '0');
      hand_over.step(who, done[who]++);
    }
    hand_over.end();
    ++orders;
    EXPECT_FALSE(::testing::Test::HasFailure()) << "order " << steps;
  });
  EXPECT_EQ(orders, 210'210U);  // 14! / (6! 4! 4!)
}

// ---------------------------------------------------------------- the hand-over, under threads

// A copier and two threads that come and go, a service process that asks, asks no more and takes back at random. The
// jobs' bytes are plain memory: a thread checker sees any that two touch.
TEST(HandOver, ThreadsThatComeAndGo) {
  constexpr std::uint64_t kJobs = 20'000;
  const auto copy_queue = std::make_unique<CopyQueue>();
  LenderQueue copier(*copy_queue, ::getpid(), 0ms);
  copy_queue->copier_tid.store(static_cast<pid_t>(::syscall(SYS_gettid)));
  std::vector<int> copied(kJobs, 0);
  std::atomic<bool> over{false};
  const auto copy = [&copied](const CopyJob& job) { ++copied[job.own_address]; };
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    CopyTaker taker(*copy_queue);
    CopyJob job;
    std::uint32_t number = 0;
    while (!over) {
      if (taker.take(job, number)) {
        copy(job);
        taker.finish(number, CopyResult::copied);
      } else {
        taker.sleep([&] { return over.load(); });
      }
    }
  });
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      CopyTaker taker(*copy_queue);
      CopyJob job;
      std::uint32_t number = 0;
      while (!over) {
        copy_queue->rank_waits.fetch_add(1);
        for (auto looks = random() % 20; looks > 0; --looks) {
          if (!taker.anything_asked() || !taker.take_asked(job, number)) {
            std::this_thread::yield();
            continue;
          }
          copy(job);
          taker.finish(number, CopyResult::copied);
        }
        copy_queue->rank_waits.fetch_sub(1);
      }
    });
  }
  std::mt19937 random(17);
  std::vector<std::uint64_t> again;  // taken back
  std::vector<int> ended(kJobs, 0);
  std::uint64_t next = 0;
  std::uint64_t left = kJobs;
  std::vector<LenderQueue::Finished> finished;
  std::vector<Chunk> returned;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (left > 0 && std::chrono::steady_clock::now() < deadline) {
    bool gave = false;
    while (copier.usable() && copier.room() != 0 && (next < kJobs || !again.empty()) && random() % 8 != 0) {
      std::uint64_t number = 0;
      if (again.empty()) {
        number = next++;
      } else {
        number = again.back();
        again.pop_back();
      }
      CopyJob job;
      job.own_address = number;
      Chunk chunk;
      chunk.offset = number;
      copier.give(job, chunk);
      gave = true;
    }
    copier.rank_waits() != copy::Waits::no&& random() % 4 != 0 ? copier.ask_rank() : copier.ask_no_more();
    if (gave) copier.ring();
    if (random() % 4 == 0) copier.wait(50us);
    finished.clear();
    returned.clear();
    (void)copier.collect(finished, returned);
    for (const auto& one : finished) {
      ++ended[one.chunk.offset];
      EXPECT_EQ(copied[one.chunk.offset], 1);
      --left;
    }
    for (const Chunk& chunk : returned) again.push_back(chunk.offset);
  }
  over = true;
  ring_copier(*copy_queue);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(left, 0U) << "jobs that nobody took";
  for (std::uint64_t job = 0; job < kJobs; ++job) {
    ASSERT_EQ(ended[job], 1) << job;
    ASSERT_EQ(copied[job], 1) << job;
  }
}

// ---------------------------------------------------------------- when ranks are asked

// This process is the only rank with a copier, or plays one with a copier that does nothing.
class WaitingRank : public testing::Copiers {
 protected:
  WaitingRank() : Copiers(100ms) { helper_.allow(copy_queue(), pages_, copy::Lenders::copiers); }

  void without_working_copier() { pretend_copier(static_cast<pid_t>(::syscall(SYS_gettid))); }
  void help_until(const Ended& ended) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!ended.ended() && std::chrono::steady_clock::now() < deadline) {
      (void)fabric_.progress();
      (void)helper_.help();
    }
    ASSERT_TRUE(ended.ended());
  }
  bool asked() { return CopyTaker(copy_queue()).anything_asked(); }
  // Memory of this rank that the service process maps, too.
  std::span<std::byte> map_for_both() {
    const auto fd = create_sealed_memory("outrigger-test", kBytes, Backing::on_touch);
    auto ranks = Mapping::map(fd.value().get(), kBytes);
    auto services = Mapping::map(fd.value().get(), kBytes);
    mapped_ = std::move(ranks).value();
    EXPECT_TRUE(fabric_.rank(kHere)->add_region(kRegion, address_of(mapped_.base()), std::move(services).value()));
    return {mapped_.base(), kBytes};
  }

  Mapping mapped_;
  client::WaitHelper helper_;
};

class WaitingRankWithCopier : public testing::Copiers {
 protected:
  WaitingRankWithCopier() { helper_.allow(copy_queue(), pages_, copy::Lenders::copiers); }
  client::WaitHelper helper_;
};

TEST_F(WaitingRank, CopiesItsBlocks) {
  without_working_copier();
  helper_.posted(kBytesForHours);
  ASSERT_EQ(helper_.enter(), copy::Waits::at_once);
  Ended pulled;
  fabric_.move(childs(3, kBytes - 10), mine(7, kBytes - 10), nullptr, pulled);
  help_until(pulled);
  EXPECT_EQ(pulled.status(), MoveStatus::ok);
  EXPECT_EQ(pulled.reach(), Reach::copier);
  expect_bytes(memory_, 7, 3, kBytes - 10);
  EXPECT_EQ(helper_.bytes(), kBytes - 10);
  Ended within;
  for (std::uint64_t i = 0; i < kBytes; ++i) other_[i] = testing::byte_at(i + 1);
  fabric_.move(mine_too(0, kBytes), mine(0, kBytes), nullptr, within);
  help_until(within);
  expect_bytes(memory_, 0, 1, kBytes);
  EXPECT_EQ(helper_.bytes(), 2 * kBytes - 10);
  helper_.leave(copy::Waits::at_once);
}

TEST_F(WaitingRank, IsNotAskedWhileItComputes) {
  without_working_copier();
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  EXPECT_NE(copy_queue().given.load(), 0U);
  EXPECT_FALSE(asked());
  EXPECT_FALSE(helper_.help());
  progress_until(ended);
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  EXPECT_EQ(helper_.bytes(), 0U);
}

// Its service process has most of a short operation's copies behind it by then.
TEST_F(WaitingRank, IsAskedAfterAComputationOnlyIfMuchIsLeft) {
  without_working_copier();
  const copy::Waits waits = helper_.enter();
  ASSERT_EQ(waits, copy::Waits::late);
  Ended little;
  fabric_.move(childs(0, copy::kLeastBytesForLateHelp - 1), mine(0, copy::kLeastBytesForLateHelp - 1), nullptr, little);
  (void)fabric_.progress();
  EXPECT_NE(copy_queue().given.load(), 0U);
  EXPECT_FALSE(asked());
  progress_until(little);
  Ended much;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, much);
  (void)fabric_.progress();
  EXPECT_TRUE(asked());
  help_until(much);
  EXPECT_EQ(much.status(), MoveStatus::ok);
  expect_bytes(memory_, 0, 0, kBytes);
  EXPECT_GT(helper_.bytes(), 0U);
  helper_.leave(waits);
  EXPECT_EQ(copy_queue().rank_waits_late.load(), 0U);
}

// The service process could copy it alone.
TEST_F(WaitingRank, CopiesAPartOfMappedMemory) {
  without_working_copier();
  const std::span<std::byte> mapped = map_for_both();
  const Block to{MemoryRef{kHere, kRegion, address_of(mapped.data())}, kBytes};
  ASSERT_EQ(helper_.enter(), copy::Waits::late);
  Ended ended;
  fabric_.move(childs(0, kBytes), to, nullptr, ended);
  help_until(ended);
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  for (std::uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(mapped[i], testing::byte_at(i)) << i;
  EXPECT_GT(helper_.bytes(), 0U);
  EXPECT_LT(helper_.bytes(), kBytes) << "the service process copies as well";
  helper_.leave(copy::Waits::late);
}

TEST_F(WaitingRank, IsNotAskedWhileAnotherComputes) {
  without_working_copier();
  fabric_.expect_copier(kElsewhere);
  helper_.posted(kBytesForHours);
  ASSERT_EQ(helper_.enter(), copy::Waits::at_once);
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  EXPECT_NE(copy_queue().given.load(), 0U);
  EXPECT_FALSE(asked());
  // It waits as well: what is given from now on is for both. That it dies changes nothing for those who are left.
  CopyQueue& others = fabric_.rank(kElsewhere)->segment().header().copies;
  others.rank_waits.store(1);
  progress_until(ended);
  Ended second;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, second);
  (void)fabric_.progress();
  EXPECT_TRUE(asked());
  help_until(second);
  fabric_.drop_rank(kElsewhere);
  Ended third;
  fabric_.move(mine_too(0, kBytes), mine(0, kBytes), nullptr, third);
  (void)fabric_.progress();
  EXPECT_TRUE(asked());
  help_until(third);
  helper_.leave(copy::Waits::at_once);
}

// The whole of it is the copier's again, and what it does not take the service process's.
TEST_F(WaitingRank, LeavesWithoutATakenJobAndIsAskedNoMore) {
  without_working_copier();
  helper_.posted(kBytesForHours);
  ASSERT_EQ(helper_.enter(), copy::Waits::at_once);
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  ASSERT_TRUE(asked());
  ASSERT_TRUE(helper_.help());
  helper_.leave(copy::Waits::at_once);
  (void)fabric_.progress();
  EXPECT_FALSE(asked());
  EXPECT_FALSE(helper_.help());
  progress_until(ended);
  ASSERT_TRUE(ended.ended()) << "jobs that were meant for a rank that has left are lost";
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  expect_bytes(memory_, 0, 0, kBytes);
}

TEST_F(WaitingRankWithCopier, LeavesTheRestToTheCopierAtOnce) {
  start_copier();
  helper_.posted(kBytesForHours);
  ASSERT_EQ(helper_.enter(), copy::Waits::at_once);
  for (int round = 0; round < 20; ++round) {
    std::memset(memory_.data(), 0, kBytes);
    Ended ended;
    fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
    // A helper is announced but never comes. This may cost only the request.
    const auto start = std::chrono::steady_clock::now();
    progress_until(ended);
    ASSERT_TRUE(ended.ended());
    EXPECT_EQ(ended.reach(), Reach::copier) << "taken back, after its patience";
    EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);
    expect_bytes(memory_, 0, 0, kBytes);
  }
  EXPECT_EQ(helper_.bytes(), 0U);
  helper_.leave(copy::Waits::at_once);
}

TEST_F(WaitingRankWithCopier, SharesTheWorkWithIt) {
  start_copier();
  std::atomic<bool> over{false};
  std::vector<std::thread> waiting;
  for (int thread = 0; thread < 2; ++thread) {
    waiting.emplace_back([&] {
      while (!over) {
        helper_.posted(kBytesForHours);
        const copy::Waits waits = helper_.enter();
        EXPECT_EQ(waits, copy::Waits::at_once);
        for (int looks = 0; looks < 100; ++looks) {
          if (!helper_.help()) std::this_thread::yield();
        }
        helper_.leave(waits);
      }
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  int rounds = 0;
  for (; rounds < 20 || (helper_.bytes() == 0 && std::chrono::steady_clock::now() < deadline); ++rounds) {
    std::memset(memory_.data(), 0, kBytes);
    EXPECT_EQ(move(childs(0, kBytes), mine(0, kBytes)).status, MoveStatus::ok);
    expect_bytes(memory_, 0, 0, kBytes);
  }
  over = true;
  for (std::thread& thread : waiting) thread.join();
  EXPECT_GT(helper_.bytes(), 0U);
  EXPECT_LE(helper_.bytes(), static_cast<std::uint64_t>(rounds) * kBytes) << "something was copied twice";
  EXPECT_EQ(copy_queue().rank_waits.load(), 0U);
}

// Its process is killed with a job in hand: nothing more is heard of it until the keeper tells.
TEST_F(WaitingRank, DiesWithAJob) {
  without_working_copier();
  copy_queue().rank_waits.store(1);
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  CopyJob job;
  std::uint32_t number = 0;
  ASSERT_TRUE(CopyTaker(copy_queue()).take_asked(job, number));
  const auto a_while = std::chrono::steady_clock::now() + 250ms;
  while (std::chrono::steady_clock::now() < a_while) (void)fabric_.progress();
  EXPECT_FALSE(ended.ended()) << "for all that is known it is still being written";
  fabric_.drop_rank(kHere);
  progress_until(ended);
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.status(), MoveStatus::owner_lost);
  EXPECT_EQ(fabric_.moves_in_flight(), 0U);
}

// One of two takers stops with the older job, and the copier's thread ends with the newer one.
TEST_F(WaitingRank, HoldsAJobWhileTheCopierDiesWithANewerOne) {
  std::atomic<pid_t> tid{0};
  std::atomic<bool> go{false};
  std::thread dying([&] {
    tid = static_cast<pid_t>(::syscall(SYS_gettid));
    while (!go) std::this_thread::yield();
    CopyJob job;
    std::uint32_t number = 0;
    ASSERT_TRUE(CopyTaker(copy_queue()).take(job, number));
    copy_queue().copier_has.store(number + 1);
  });
  while (tid == 0) std::this_thread::yield();
  pretend_copier(tid);
  copy_queue().rank_waits.store(1);
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  CopyJob job;
  std::uint32_t number = 0;
  ASSERT_TRUE(CopyTaker(copy_queue()).take_asked(job, number));
  go = true;
  dying.join();
  const auto a_while = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < a_while) (void)fabric_.progress();
  EXPECT_FALSE(ended.ended());
  client::CopyJobs jobs;
  CopyTaker(copy_queue()).finish(number, jobs.carry_out(job));
  progress_until(ended);
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.status(), MoveStatus::ok);
  expect_bytes(memory_, 0, 0, kBytes);
}

// Next jobs come before the last ones are all done: who helps need not wait for the slowest.
TEST_F(WaitingRank, GetsMoreBeforeAllIsDone) {
  without_working_copier();
  helper_.posted(kBytesForHours);
  ASSERT_EQ(helper_.enter(), copy::Waits::at_once);
  Ended ended;
  fabric_.move(childs(0, kBytes), mine(0, kBytes), nullptr, ended);
  (void)fabric_.progress();
  CopyJob held;
  std::uint32_t number = 0;
  ASSERT_TRUE(CopyTaker(copy_queue()).take_asked(held, number));
  const std::uint32_t before = copy_queue().given.load();
  while (helper_.help()) continue;
  EXPECT_EQ(copy_queue().given.load(), before);
  (void)fabric_.progress();
  EXPECT_GT(copy_queue().given.load(), before);
  EXPECT_TRUE(helper_.help());
  client::CopyJobs jobs;
  CopyTaker(copy_queue()).finish(number, jobs.carry_out(held));
  help_until(ended);
  expect_bytes(memory_, 0, 0, kBytes);
  helper_.leave(copy::Waits::at_once);
}

// A rank may say what it likes: the others' moves end.
TEST_F(WaitingRank, SaysNonsense) {
  without_working_copier();
  std::mt19937 random(5);
  for (int round = 0; round < 10; ++round) {
    copy_queue().rank_waits.store(static_cast<std::uint32_t>(random()));
    Ended ended;
    fabric_.move(childs(0, kBytes / 4), mine(0, kBytes / 4), nullptr, ended);
    (void)fabric_.progress();
    copy_queue().asked.store(static_cast<std::uint32_t>(random()));
    copy_queue().copier_sleeps.store(1);
    copy_queue().taken.store(round % 2 == 0 ? copy_queue().given.load() : static_cast<std::uint32_t>(random()));
    for (auto& result : copy_queue().results) result.store(static_cast<std::uint32_t>(random() % 7));
    progress_until(ended);
    EXPECT_TRUE(ended.ended());
  }
  EXPECT_EQ(fabric_.moves_in_flight(), 0U);
}

}  // namespace
}  // namespace outrigger::wait_copies_test
