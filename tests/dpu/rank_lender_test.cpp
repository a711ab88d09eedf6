// A rank lends to a service process on a DPU. Every part ends once, with its bytes copied or never touched. This holds
// in any order in which the network's writes and reads end. The rank may take, finish, stop waiting or die at any time.
#include "fabric/dpu/rank_lender.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "copy/copy_queue.hpp"

namespace outrigger::fabric::dpu {
namespace {

using namespace std::chrono_literals;

struct Freed {
  void operator()(std::byte* room) const { ::operator delete[](room, std::align_val_t{4096}); }
};
using Room = std::unique_ptr<std::byte[], Freed>;

// A segment's header, zeroed.
Room room() {
  auto* first = static_cast<std::byte*>(::operator new[](SegmentView::ring_offset(), std::align_val_t{4096}));
  std::memset(first, 0, SegmentView::ring_offset());
  return Room(first);
}

// Writes are in place late and in any order, word by word. A flush ends after all earlier ones.
class SlowSegment final : public SegmentAccess {
 public:
  explicit SlowSegment(unsigned seed) : random_(seed), here_(room()), there_(room()) {}

  [[nodiscard]] SegmentView mirror() const override { return SegmentView(here_.get()); }
  [[nodiscard]] CopyQueue& host() const { return SegmentView(there_.get()).header().copies; }
  void fetch(const void* part, std::size_t bytes, Done done) override {
    look_at(part, bytes, [this, part, done = std::move(done)](std::span<const std::byte> came) {
      if (!came.empty()) std::memcpy(here_.get() + offset(part), came.data(), came.size());
      done(!came.empty());
    });
  }
  void look_at(const void* part, std::size_t bytes, Came came) override {
    later_.emplace_back([this, part, bytes, came = std::move(came)] {
      std::vector<std::uint32_t> read;
      for (std::size_t at = 0; at < bytes && !broken; at += 4) read.push_back(word(offset(part) + at).load());
      came(std::as_bytes(std::span(read)));
    });
  }
  void store(const void* part, std::size_t bytes, Done done) override {
    const auto* first = static_cast<const std::byte*>(part);
    writes_.push_back({++begun_, offset(part), {first, first + bytes}, std::move(done)});
  }
  void when_flushed(Done done) override { flushes_.emplace_back(begun_, std::move(done)); }

  // One thing happens, chosen by chance. False: nothing is under way.
  bool step() {
    const std::size_t choices = (writes_.empty() ? 0 : 1) + (later_.empty() ? 0 : 1) + (flushable() ? 1 : 0);
    if (choices == 0) return false;
    std::size_t choice = random_() % choices;
    if (!writes_.empty() && choice-- == 0) return write();
    if (!later_.empty() && choice-- == 0) {
      take(later_)();
      return true;
    }
    const Done done = std::move(flushes_.front().second);
    flushes_.pop_front();
    done(!broken);
    return true;
  }

  // The process at this end has died: its writes are in place or lost, and nothing is told any more.
  void die() {
    while (!writes_.empty()) {
      writes_.front().done = [](bool /*ok*/) {};
      if (random_() % 2 == 0) {
        (void)write();
      } else {
        writes_.pop_front();
      }
    }
    flushes_.clear();
    later_.clear();
    std::memset(here_.get(), 0, SegmentView::ring_offset());
  }

  bool broken = false;

 private:
  struct Write {
    std::uint64_t number;
    std::size_t offset;
    std::vector<std::byte> bytes;
    Done done;
  };
  [[nodiscard]] std::size_t offset(const void* part) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(part) - here_.get());
  }
  [[nodiscard]] bool flushable() const {
    return !flushes_.empty() &&
           std::ranges::none_of(writes_, [this](const Write& one) { return one.number <= flushes_.front().first; });
  }
  template <class One>
  One take(std::deque<One>& queue) {
    const std::size_t which = random_() % queue.size();
    One taken = std::move(queue[which]);
    queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(which));
    return taken;
  }
  [[nodiscard]] std::atomic_ref<std::uint32_t> word(std::size_t at) const {
    return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(there_.get() + at));
  }
  // Only atomic words change, and only the service process's.
  bool write() {
    const Write one = take(writes_);
    for (std::size_t at = 0; at < one.bytes.size() && !broken; at += 4) {
      std::uint32_t value = 0;
      std::memcpy(&value, one.bytes.data() + at, 4);
      word(one.offset + at).store(value);
    }
    one.done(!broken);
    return true;
  }

  std::mt19937 random_;
  Room here_;
  Room there_;
  std::deque<Write> writes_;
  std::uint64_t begun_ = 0;
  std::deque<std::pair<std::uint64_t, Done>> flushes_;  // after all writes up to this one
  std::deque<std::function<void()>> later_;
};

// Ends of parts, and which of them the rank has copied.
class Lending {
 public:
  explicit Lending(unsigned seed) : segment(seed), random(seed), lender_(make()) {}

  RankLender& lender() { return *lender_; }
  void give() {
    CopyJob job;
    job.bytes = 1000;
    job.own_address = ++given;
    lender_->give(job, {given, 0, job.bytes});
  }
  // The DPU, until it has no more to do.
  void go_on() {
    for (int turn = 0; turn < 200; ++turn) {
      lender().step(now, true);
      (void)segment.step();
    }
  }
  // The rank's thread: takes a job, or finishes the one in hand.
  void turn_of_rank() {
    CopyTaker taker(segment.host());
    if (in_hand_) {
      // A part that has ended without a copy must not be written any more.
      EXPECT_FALSE(ends.contains(in_hand_)) << "part " << in_hand_ << " is written after its end";
      EXPECT_FALSE(over && forgotten_.contains(in_hand_)) << "part " << in_hand_ << " is written after the take-over";
      copied.insert(in_hand_);
      in_hand_ = 0;
      return taker.finish(number_, CopyResult::copied);
    }
    CopyJob job;
    if (taker.take_asked(job, number_)) in_hand_ = job.own_address;
  }
  void replace_service_process() {
    // Parts of the dead process are moved again by its successor, once it has taken over.
    lender_.reset();
    segment.die();
    lender_ = make();
    over = false;
    for (std::uint64_t part = 1; part <= given; ++part) {
      if (!ends.contains(part)) forgotten_.insert(part);
    }
    lender_->take_over([this](bool ok) { over = ok; });
  }
  [[nodiscard]] bool has_job() const { return in_hand_ != 0; }
  // All parts have ended, as they were treated.
  void check() {
    for (std::uint64_t part = 1; part <= given; ++part) {
      if (forgotten_.contains(part)) continue;
      ASSERT_TRUE(ends.contains(part)) << part;
      EXPECT_TRUE(!ends.at(part) || copied.contains(part)) << part;
    }
  }

  SlowSegment segment;
  std::mt19937 random;
  RankLender::Clock::time_point now;
  std::uint64_t given = 0;
  std::map<std::uint64_t, bool> ends;
  std::set<std::uint64_t> copied;
  bool over = true;  // the take-over

 private:
  std::unique_ptr<RankLender> make() {
    return std::make_unique<RankLender>(segment, [this](const RankLender::Part& part, bool was_copied) {
      EXPECT_TRUE(ends.emplace(part.move, was_copied).second) << "part " << part.move << " ends twice";
    });
  }
  std::unique_ptr<RankLender> lender_;
  std::uint64_t in_hand_ = 0;
  std::uint32_t number_ = 0;
  std::set<std::uint64_t> forgotten_;  // given by a dead process
};

TEST(RankLender, AWaitingRankCopiesEverything) {
  Lending all(1);
  all.lender().saw(copy::Offer::waiting, 0);
  for (int round = 0; round < 2000; ++round) {
    if (all.given < 100 && all.lender().lends()) all.give();
    all.lender().step(all.now, true);
    (void)all.segment.step();
    all.turn_of_rank();
  }
  EXPECT_EQ(all.given, 100U);
  EXPECT_EQ(all.copied.size(), 100U);
  all.check();
  EXPECT_TRUE(all.lender().idle());
  const CopyQueue& queue = all.segment.host();
  EXPECT_LE(queue.taken.load() - queue.recalled.load(), kCopyJobs) << "compared modulo 2^32";
}

TEST(RankLender, AtItsLimitItGetsNoMore) {
  Lending all(1);
  EXPECT_FALSE(all.lender().lends());
  all.lender().saw(copy::Offer::waiting, 0);
  while (all.lender().lends()) all.give();
  EXPECT_EQ(all.given, kCopyJobs);
}

TEST(RankLender, JobsOfARankThatTakesNoneAreTakenBack) {
  Lending all(1);
  all.lender().saw(copy::Offer::waiting, 0);
  for (int i = 0; i < 5; ++i) all.give();
  all.go_on();
  EXPECT_TRUE(all.ends.empty());
  all.now += RankLender::kPatience + 1ms;
  all.go_on();
  EXPECT_EQ(all.ends.size(), 5U);
  EXPECT_FALSE(all.lender().lends()) << "it has just failed to copy";
  all.turn_of_rank();
  EXPECT_FALSE(all.has_job());
  EXPECT_EQ(all.segment.host().taken.load(), 5U) << "compared with the recalled jobs modulo 2^32";
  all.lender().saw(copy::Offer::none, 0);
  all.lender().saw(copy::Offer::waiting, 0);
  EXPECT_TRUE(all.lender().lends());
}

// A rank without a core of its own is late, and lends again with its next turn.
TEST(RankLender, ARankThatTakesATurnLendsAgain) {
  Lending all(1);
  all.lender().saw(copy::Offer::waiting, 7);
  all.give();
  const auto go_on = [&all](std::uint32_t turns) {
    for (int i = 0; i < 200; ++i) {
      all.lender().saw(copy::Offer::waiting, turns);
      all.lender().step(all.now, true);
      (void)all.segment.step();
    }
  };
  go_on(7);
  all.now += RankLender::kPatience + 1ms;
  go_on(7);
  EXPECT_EQ(all.ends.size(), 1U);
  EXPECT_FALSE(all.lender().lends());
  EXPECT_FALSE(all.lender().waits());
  go_on(8);
  EXPECT_TRUE(all.lender().lends());
}

TEST(RankLender, ABusyCardLeavesJobsToALateRank) {
  Lending all(1);
  all.lender().saw(copy::Offer::waiting, 0);
  all.give();
  const auto go_on = [&all] {
    for (int i = 0; i < 200; ++i) {
      all.lender().step(all.now, false);
      (void)all.segment.step();
    }
  };
  go_on();
  all.now += RankLender::kPatienceOfBusyCard - 1ms;
  go_on();
  EXPECT_TRUE(all.ends.empty());
  all.now += 2ms;
  go_on();
  EXPECT_EQ(all.ends.size(), 1U);
}

// Its copier takes them instead.
TEST(RankLender, JobsStayWithARankThatLeavesItsWaitIfItHasACopier) {
  Lending all(1);
  all.lender().saw(copy::Offer::waiting, 0);
  all.give();
  EXPECT_EQ(all.lender().offer(), copy::Offer::waiting);
  all.lender().saw(copy::Offer::copier, 1);
  EXPECT_EQ(all.lender().offer(), copy::Offer::copier);
  EXPECT_FALSE(all.lender().waits());
  for (int round = 0; round < 200; ++round) {
    all.lender().step(all.now, true);
    (void)all.segment.step();
    all.turn_of_rank();
  }
  EXPECT_EQ(all.copied.size(), 1U);
  all.give();
  all.lender().saw(copy::Offer::none, 1);
  all.go_on();
  EXPECT_EQ(all.copied.size(), 1U);
  all.check();
}

TEST(RankLender, AJobInHandIsWaitedFor) {
  Lending all(1);
  all.lender().saw(copy::Offer::waiting, 0);
  for (int i = 0; i < 3; ++i) all.give();
  all.go_on();
  all.turn_of_rank();
  ASSERT_TRUE(all.has_job());
  all.lender().saw(copy::Offer::none, 0);
  all.go_on();
  EXPECT_EQ(all.ends.size(), 2U);
  EXPECT_FALSE(all.ends.contains(1));
  all.lender().saw(copy::Offer::waiting, 0);
  EXPECT_FALSE(all.lender().lends()) << "the hand may still write its result";
  all.turn_of_rank();
  all.go_on();
  EXPECT_TRUE(all.ends.at(1));
  EXPECT_TRUE(all.lender().lends());
}

// A system call filter may kill a copier's thread alone.
TEST(RankLender, AJobOfACopierThatDiedIsNotWaitedFor) {
  Lending all(1);
  all.lender().saw(copy::Offer::copier, 0);
  for (int i = 0; i < 3; ++i) all.give();
  all.go_on();
  all.turn_of_rank();
  ASSERT_TRUE(all.has_job());
  all.segment.host().copier_holds.store(77);
  all.lender().saw(copy::Offer::none, 0);
  all.go_on();
  EXPECT_EQ(all.ends.size(), 2U) << "it lives";
  all.segment.host().copier_holds.store(77 | kCopierDied);
  all.go_on();
  EXPECT_EQ(all.ends.size(), 3U);
  EXPECT_TRUE(all.copied.empty());
  all.check();
  all.lender().saw(copy::Offer::waiting, 0);
  EXPECT_TRUE(all.lender().lends()) << "its rank may wait and copy";
}

// Jobs come and go, the rank waits or not, the service process is replaced.
TEST(RankLender, EveryPartEndsOnceInAnyOrder) {
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    Lending all(seed);
    for (int round = 0; round < 400; ++round) {
      const auto what = static_cast<std::uint32_t>(all.random() % 100);
      if (what < 3) all.lender().saw(static_cast<copy::Offer>(what), what);
      if (what == 4) all.lender().recall();
      if (what == 5) all.now += 3ms;
      if (what == 6 && all.over && seed % 2 == 0) all.replace_service_process();
      if (what < 50 && all.over && all.lender().lends()) all.give();
      all.lender().step(all.now, true);
      if (what % 3 == 0) (void)all.segment.step();
      if (what % 4 == 0) all.turn_of_rank();
    }
    all.lender().recall();
    for (int round = 0; round < 400; ++round) {
      all.lender().step(all.now, true);
      (void)all.segment.step();
      all.turn_of_rank();
    }
    EXPECT_TRUE(all.over);
    all.check();
    EXPECT_TRUE(all.lender().idle());
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RankLender, PartsEndIfTheRankIsNotReachedAnyMore) {
  Lending all(1);
  all.lender().saw(copy::Offer::waiting, 0);
  for (int i = 0; i < 3; ++i) all.give();
  all.segment.broken = true;
  for (int i = 0; i < 50; ++i) {
    all.lender().step(all.now, true);
    (void)all.segment.step();
  }
  EXPECT_EQ(all.ends.size(), 3U);
  EXPECT_FALSE(all.lender().lends());
}

// Real threads: the takers' side is only correct in the order in which it reads and writes.
TEST(RankLender, ThreadsThatTakeWhileJobsAreRecalled) {
  Lending all(7);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> begun{0};
  std::vector<std::atomic<int>> state(1 << 20);  // of each part: 1 in hand, 2 copied
  const auto take = [&] {
    CopyTaker taker(all.segment.host());
    while (!stop.load(std::memory_order_relaxed)) {
      CopyJob job;
      std::uint32_t number = 0;
      if (!taker.take_asked(job, number)) continue;
      state[job.own_address].fetch_add(1);
      begun.fetch_add(1);
      state[job.own_address].fetch_add(1);
      taker.finish(number, CopyResult::copied);
    }
  };
  std::vector<std::thread> takers;
  for (int i = 0; i < 3; ++i) takers.emplace_back(take);
  all.lender().saw(copy::Offer::waiting, 0);
  constexpr std::size_t kLeastEnds = 100;
  std::size_t seen = 0;
  for (int round = 0; round < 300'000 || seen <= kLeastEnds; ++round) {
    if (round >= 300'000) std::this_thread::yield();  // the takers have had no core
    if (all.lender().lends() && all.given + 1 < state.size()) all.give();
    if (all.random() % 16 == 0) all.lender().recall();
    all.lender().step(all.now, true);
    (void)all.segment.step();
    for (auto end = all.ends.begin(); end != all.ends.end(); end = all.ends.erase(end)) {
      // It is not copied later: begun jobs are over, others never begin.
      const int now = state[end->first].exchange(-100);
      EXPECT_TRUE(now == (end->second ? 2 : 0)) << "part " << end->first << " ended, its state is " << now;
      ++seen;
    }
  }
  stop = true;
  for (std::thread& taker : takers) taker.join();
  for (std::uint64_t part = 1; part <= all.given; ++part) {
    EXPECT_TRUE(state[part] == -100 || state[part] == 0 || state[part] == 2) << part;
  }
}

}  // namespace
}  // namespace outrigger::fabric::dpu
