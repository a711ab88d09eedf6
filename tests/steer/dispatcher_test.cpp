// One question for each call, one answer: rules, the plan, cached answers, and what the rank sends meanwhile.
#include "steer/rank/dispatcher.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace outrigger::steer {

inline void PrintTo(const Answer& answer, std::ostream* out) {
  if (answer.way == Way::offloaded) {
    *out << name_of(answer.algorithm);
  } else {
    *out << report::kReasonNames[static_cast<std::size_t>(answer.reason)] << ", " << static_cast<int>(answer.lasts);
  }
}

namespace {

constexpr CollectiveForm kAlltoall{Collective::ialltoall, false};
constexpr CollectiveForm kAlltoallv{Collective::ialltoallv, false};
constexpr Call kLarge{kAlltoall, 65536};
constexpr Call kSmall{kAlltoall, 64};
constexpr Call kWithoutSizes{kAlltoallv, std::nullopt};
constexpr Dispatcher::Arguments kSmallArguments{64, 1};

struct FakeSegment {
  std::atomic<bool> gone = false;
  PlanEntry plan_entry{};
};
class FakePort final : public FakeSegment, public DispatchPort {
 public:
  explicit FakePort(bool has_plan = true) : DispatchPort(gone, has_plan ? &plan_entry : nullptr) {}

  void send(const Notice& notice) const noexcept override { sent.push_back(notice); }
  [[nodiscard]] bool job_ended() const noexcept override { return while_held(); }

  [[nodiscard]] std::uint64_t calls() const { return plan_entry.calls.load(); }
  [[nodiscard]] std::size_t count(SlotRequest kind) const {
    return static_cast<std::size_t>(std::ranges::count(sent, kind, &Notice::kind));
  }
  void change(const DispatchPlan& after) {
    plan_entry.change({plan_entry.calls.load(), plan_entry.plan().after, after});
  }

  mutable std::vector<Notice> sent;
  std::function<bool()> while_held = [] { return true; };
};

std::string no_mpi() {
  return "a test's";
}
void refuse(const std::string& path) {
  ADD_FAILURE() << path;
}

// The machine's communicator as one rank sees it.
struct Rank {
  explicit Rank(bool first = true, const std::string& rules = "", bool has_plan = true, std::uint32_t ranks = 4)
      : table(SelectionTable::decode(rules).value()), port(has_plan), shape{ranks, 1, ranks, 1}, is_first(first) {
    settings.table = &table;
  }
  // Before the first call.
  void measure(bool native_at_first = false) {
    settings.decisions = &file;
    settings.native_at_first = native_at_first;
  }
  [[nodiscard]] Answer call(const Call& call) { return dispatcher.decide(call); }

  SelectionTable table;
  DispatchSettings settings;
  DecisionFile file{"program", "cores", &no_mpi, &refuse};
  FakePort port;
  GroupShape shape;
  bool is_first;
  int opened = 0;
  Dispatcher dispatcher{settings, shape, is_first, false, [this] {
                          ++opened;
                          return &port;
                        }};
};

class DispatcherTest : public testing::Test {
 protected:
  DispatcherTest() { ::setenv("XDG_CACHE_HOME", cache_.c_str(), 1); }
  ~DispatcherTest() override { std::filesystem::remove_all(cache_); }

 private:
  std::filesystem::path cache_ =
      std::filesystem::temp_directory_path() / ("dispatcher_test." + std::to_string(::getpid()));
};

constexpr Answer native(NativeReason reason, Lasts lasts = Lasts::once) {
  return {Way::native, reason, lasts};
}
constexpr Answer offloaded(Algorithm algorithm, bool by_plan = true) {
  return {Way::offloaded, NativeReason::none, Lasts::once, by_plan, algorithm};
}

TEST_F(DispatcherTest, RulesComeBeforeThePlan) {
  EXPECT_EQ(Rank(true, "", true, 1).call(kLarge), native(NativeReason::group_of_one));
  EXPECT_EQ(Rank(true, "", true, kMaxGroupSize + 1).call(kLarge), native(NativeReason::group_too_large));
  EXPECT_EQ(Rank(true, "ialltoall=native").call(kLarge), native(NativeReason::users_rule, Lasts::for_good));
  const Call blocking{{Collective::ialltoall, true}, 65536};
  EXPECT_EQ(Rank().call(blocking), native(NativeReason::none, Lasts::for_good)) << "nobody has asked for it";

  Rank rank;
  Call sum{{Collective::iallreduce, false}, 65536, NativeReason::rounding};
  EXPECT_EQ(rank.call(sum), native(NativeReason::rounding, Lasts::for_good));
  sum.obstacle = NativeReason::other_reduction;
  EXPECT_EQ(rank.call(sum), native(NativeReason::other_reduction, Lasts::for_good));
  EXPECT_EQ(rank.opened, 0) << "no service process hears of it";
}

TEST_F(DispatcherTest, ARuleOfTheUsersAllowsRoundingAndHoldsUntilServiceProcessesFail) {
  Rank rank(true, "iallreduce=sliced_pull");
  const Call sum{{Collective::iallreduce, false}, 65536, NativeReason::rounding};
  EXPECT_EQ(rank.call(sum), offloaded(Algorithm::sliced_pull, false));
  DispatchPlan plan;
  plan.suspended.busy = plan.suspended.small = kEveryCollective;
  rank.port.change(plan);
  EXPECT_EQ(rank.call(sum), offloaded(Algorithm::sliced_pull, false));
  plan.suspended.failing = true;
  rank.port.change(plan);
  EXPECT_EQ(rank.call(sum), native(NativeReason::services_died));
  EXPECT_EQ(rank.port.calls(), 3U) << "they are counted, too";
  EXPECT_TRUE(rank.port.sent.empty());
}

TEST_F(DispatcherTest, CallsThatTheProgramHasSwitchedOffAreCountedApart) {
  Rank rank;
  rank.dispatcher.set_off(true);
  EXPECT_EQ(rank.call(kLarge), native(NativeReason::switched_off));
  EXPECT_FALSE(rank.dispatcher.goes_on(kAlltoallv));
  everything_is_off = true;
  rank.dispatcher.set_off(false);
  EXPECT_EQ(rank.call(kLarge), native(NativeReason::switched_off));
  everything_is_off = false;
  EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
  EXPECT_EQ(rank.port.calls(), 1U);
  EXPECT_EQ(rank.dispatcher.calls(), 3U);
}

TEST_F(DispatcherTest, WithoutAPlanTheTableDecidesAndCallsAreCountedHere) {
  Rank rank(true, "", false);
  rank.measure();
  for (int call = 0; call < 3; ++call) EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
  EXPECT_EQ(rank.dispatcher.calls(), 3U);
  rank.port.gone = true;  // a forked child
  EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
  EXPECT_EQ(rank.dispatcher.calls(), 3U);
  EXPECT_TRUE(rank.port.sent.empty());
}

// Entries are limited, so some ranks of a communicator may have none.
TEST_F(DispatcherTest, RanksWithAndWithoutAnEntryCountAlike) {
  Rank with(false);
  Rank without(false, "", false);
  for (Rank* rank : {&with, &without}) {
    rank->measure();
    static_cast<void>(rank->call(kLarge));
    for (int call = 0; call < 5; ++call) static_cast<void>(rank->call(kSmall));
  }
  EXPECT_EQ(with.dispatcher.calls(), 6U);
  EXPECT_EQ(without.dispatcher.calls(), 6U);
}

TEST_F(DispatcherTest, AForkedChildTouchesNoPlan) {
  Rank rank;
  rank.port.gone = true;
  EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
  EXPECT_EQ(rank.port.calls(), 0U);
}

TEST_F(DispatcherTest, SmallBlocksAreNativeForGoodWhereNothingIsMeasured) {
  Rank rank;
  EXPECT_EQ(rank.call(kSmall), native(NativeReason::small_blocks, Lasts::for_good));
  EXPECT_EQ(rank.call(kSmall), native(NativeReason::small_blocks, Lasts::for_good));
  EXPECT_EQ(rank.opened, 0);
}

TEST_F(DispatcherTest, FewNativeCallsNeedNoPlan) {
  Rank rank;
  rank.measure();
  for (int call = 1; call < 32; ++call) EXPECT_EQ(rank.call(kSmall), native(NativeReason::small_blocks));
  EXPECT_EQ(rank.opened, 0);
  EXPECT_EQ(rank.call(kSmall), native(NativeReason::small_blocks, Lasts::run));
  EXPECT_EQ(rank.opened, 1);
  EXPECT_EQ(rank.port.calls(), 1U);
  EXPECT_EQ(rank.port.count(SlotRequest::join_plan), 1U)
      << "the service process knows the communicator by nothing else";
}

TEST_F(DispatcherTest, AFirstCallThatIsPostedJoinsByThat) {
  Rank rank;
  EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
  DispatchPlan plan;
  plan.suspended.busy = kEveryCollective;
  rank.port.change(plan);
  EXPECT_EQ(rank.call(kLarge), native(NativeReason::service_core_taken));
  EXPECT_TRUE(rank.port.sent.empty());
}

TEST_F(DispatcherTest, EachCallOfARunIsCountedOnce) {
  Rank rank(false);
  rank.measure();
  for (int call = 1; call < 32; ++call) static_cast<void>(rank.call(kSmall));
  const Answer answer = rank.call(kSmall);
  EXPECT_EQ(rank.dispatcher.again(kAlltoall, kSmallArguments), nullptr);
  rank.dispatcher.remember(kAlltoall, kSmallArguments, answer);
  for (std::uint64_t call = 2; call < 10; ++call) {
    const Answer* cached = rank.dispatcher.again(kAlltoall, kSmallArguments);
    ASSERT_NE(cached, nullptr);
    EXPECT_EQ(*cached, answer);
    EXPECT_EQ(rank.port.calls(), call);
  }
  EXPECT_EQ(rank.dispatcher.again(kAlltoall, {65, 1}), nullptr) << "another count";
  EXPECT_EQ(rank.port.calls(), 9U);
  EXPECT_EQ(rank.call({kAlltoall, 128}), answer);
  EXPECT_EQ(rank.dispatcher.again(kAlltoall, kSmallArguments), nullptr) << "the run is another kind's now";
  EXPECT_EQ(rank.call(kSmall), answer);
  rank.dispatcher.remember(kAlltoall, kSmallArguments, answer);
  EXPECT_EQ(rank.port.calls(), 11U);

  DispatchPlan plan;
  plan.keep({kSmall.key(), Method::by(Algorithm::scatter_dest)});
  rank.port.change(plan);
  EXPECT_EQ(rank.dispatcher.again(kAlltoall, kSmallArguments), nullptr);
  EXPECT_EQ(rank.call(kSmall), offloaded(Algorithm::scatter_dest));
  EXPECT_EQ(rank.port.calls(), 12U) << "the run that ended has counted the call";
  EXPECT_EQ(rank.call(kSmall), offloaded(Algorithm::scatter_dest));
  EXPECT_EQ(rank.port.calls(), 13U);
}

TEST_F(DispatcherTest, ACachedDecisionOfAVFormGoesOnWithoutItsArguments) {
  Rank rank(false);
  rank.measure();
  EXPECT_EQ(rank.call(kWithoutSizes), offloaded(Algorithm::ring_pull));
  EXPECT_FALSE(rank.dispatcher.goes_on(kAlltoallv));
  DispatchPlan plan;
  plan.keep({kWithoutSizes.key(), Method::native()});
  rank.port.change(plan);
  EXPECT_EQ(rank.call(kWithoutSizes), native(NativeReason::measured_choice, Lasts::run));
  EXPECT_TRUE(rank.dispatcher.goes_on(kAlltoallv));
  EXPECT_EQ(rank.dispatcher.decide_start(kWithoutSizes.key(), rank.dispatcher.by_table(kWithoutSizes)),
            native(NativeReason::measured_choice, Lasts::run));
  EXPECT_EQ(rank.port.calls(), 4U);
  rank.dispatcher.close();
  EXPECT_FALSE(rank.dispatcher.goes_on(kAlltoallv));
}

TEST_F(DispatcherTest, LargerBlocksAreToldOnceUntilTheCollectiveIsOffloadedAgain) {
  Rank rank;
  static_cast<void>(rank.call(kWithoutSizes));
  DispatchPlan plan;
  plan.suspended.small = Suspended::bit(Collective::ialltoallv);
  for (std::size_t round = 1; round <= 2; ++round) {
    rank.port.change(plan);
    EXPECT_EQ(rank.call(kWithoutSizes), native(NativeReason::small_blocks));
    rank.dispatcher.note_largest_block(Collective::ialltoallv, kSmallBlockBytes);
    EXPECT_EQ(rank.port.count(SlotRequest::larger_blocks), round - 1);
    for (int call = 0; call < 3; ++call)
      rank.dispatcher.note_largest_block(Collective::ialltoallv, kSmallBlockBytes + 1);
    ASSERT_EQ(rank.port.count(SlotRequest::larger_blocks), round);
    EXPECT_EQ(rank.port.sent.back().collective, static_cast<std::uint16_t>(Collective::ialltoallv));
    rank.port.change({});
    EXPECT_EQ(rank.call(kWithoutSizes), offloaded(Algorithm::ring_pull));
  }
}

// The service process changes the plan while the rank waits in its call.
TEST_F(DispatcherTest, AHeldCallGoesByTheNewPlan) {
  Rank rank;
  static_cast<void>(rank.call(kLarge));
  PlanEntry& entry = *rank.port.entry();
  entry.held = 1;
  rank.port.while_held = [&] {
    EXPECT_EQ(rank.port.calls(), 2U) << "it has been counted";
    DispatchPlan plan;
    plan.suspended.busy = kEveryCollective;
    entry.change({1, {}, plan});
    entry.held = 0;
    return false;
  };
  EXPECT_EQ(rank.call(kLarge), native(NativeReason::service_core_taken));
}

TEST_F(DispatcherTest, AHeldCallOfAJobThatHasEndedWaitsForNobody) {
  Rank rank;
  rank.port.entry()->held = 1;
  EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
}

TEST_F(DispatcherTest, TheTimesOfATrialAreSentWhenItIsOver) {
  Rank rank(false);
  rank.measure();
  DispatchPlan plan;
  plan.trial = {7, kLarge.key(), Method::by(Algorithm::ring_pull), Method::native(), 1};
  rank.port.change(plan);
  for (std::uint32_t call = 0; call < plan.trial.calls(); ++call) {
    const bool other = plan.trial.other_in(call >> 1U);
    EXPECT_EQ(rank.call(kLarge), other ? native(NativeReason::measured_choice) : offloaded(Algorithm::ring_pull));
  }
  EXPECT_EQ(rank.port.count(SlotRequest::measured), 0U);
  EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
  ASSERT_EQ(rank.port.count(SlotRequest::measured), 1U);
  EXPECT_EQ(rank.port.sent.back().trial, 7);
  EXPECT_GT(rank.port.entry()->times().passed_ns, 0U);
  EXPECT_EQ(rank.call(kLarge), offloaded(Algorithm::ring_pull));
  EXPECT_EQ(rank.port.count(SlotRequest::measured), 1U);
}

TEST_F(DispatcherTest, TheFirstRankAsksForATrialOnce) {
  for (const bool first : {true, false}) {
    Rank rank(first);
    rank.measure();
    rank.settings.early_trials = true;
    for (int call = 0; call < 400'000 && rank.port.sent.empty(); ++call) static_cast<void>(rank.call(kLarge));
    ASSERT_EQ(rank.port.count(SlotRequest::ask_trial), first ? 1U : 0U);
    if (!first) continue;
    const Notice& notice = rank.port.sent.front();
    const TrialRequest request = TrialRequest::decode(notice.request, static_cast<Algorithm>(notice.algorithm));
    EXPECT_EQ(request.key, kLarge.key());
    EXPECT_EQ(request.usual, Method::by(Algorithm::ring_pull));
    EXPECT_TRUE(request.valid());
  }
}

TEST_F(DispatcherTest, DecisionsOfAnEarlierRunAreRecalledAtTheFourthCall) {
  const CachedDecision known{kLarge.key(), Method::native()};
  Rank before;
  before.file.note(before.shape, {&known, 1});
  before.file.save();
  Rank rank;
  rank.measure();
  for (int call = 0; call < 3; ++call) static_cast<void>(rank.call(kLarge));
  EXPECT_TRUE(rank.port.sent.empty());
  for (int call = 0; call < 3; ++call) static_cast<void>(rank.call(kLarge));
  ASSERT_EQ(rank.port.count(SlotRequest::recall), 1U);
  const Notice& notice = rank.port.sent.back();
  EXPECT_EQ(TrialRequest::decode(notice.request, static_cast<Algorithm>(notice.algorithm)).usual, Method::native());
  EXPECT_TRUE(rank.dispatcher.decisions().front() == CachedDecision{}) << "the leader decides";
}

// Ranks that go through the same calls, each at its own pace.
class Group {
 public:
  explicit Group(std::uint32_t seed) : random_(seed) {
    const bool native_at_first = below(2) == 0;
    for (std::size_t i = 0; i < 3; ++i) {
      ranks_.push_back(std::make_unique<Rank>(i == 0));
      ranks_.back()->measure(native_at_first);
    }
    while (calls_.size() < kLength) calls_.insert(calls_.end(), 1 + below(40), kKinds[below(kKinds.size())]);
  }
  struct Done {
    Method method;
    std::uint64_t counted = 0;  // by then
    bool operator==(const Done&) const = default;
  };

  // The calls of each rank, in order.
  [[nodiscard]] std::vector<std::vector<Done>> run() {
    std::vector<std::vector<Done>> done(ranks_.size());
    for (std::size_t left = ranks_.size() * kLength; left > 0;) {
      if (below(10) == 0) change();
      const std::size_t i = below(ranks_.size());
      for (std::size_t calls = below(60); calls > 0 && done[i].size() < kLength; --calls, --left) {
        const Method method = do_call(*ranks_[i], calls_[done[i].size()]);
        done[i].push_back({method, ranks_[i]->port.calls()});
      }
    }
    return done;
  }

 private:
  static constexpr std::size_t kLength = 4000;
  static constexpr std::array kKinds{kLarge, kSmall, Call{kAlltoall, 128}, kWithoutSizes,
                                     Call{{Collective::ibcast, false}, 65536}};

  [[nodiscard]] std::size_t below(std::size_t limit) { return random_() % limit; }

  // As service processes do it: from a call that no rank has begun, and once all have passed the change before.
  void change() {
    const auto calls = [](const auto& rank) { return rank->port.calls(); };
    if (calls(*std::ranges::min_element(ranks_, {}, calls)) < from_) return;
    from_ = calls(*std::ranges::max_element(ranks_, {}, calls));
    const DispatchPlan before = plan_;
    const Call& about = kKinds[below(kKinds.size())];
    const CachedDecision* made = plan_.decision(about.key());
    if (below(2) == 0) {
      plan_.suspended.busy ^= Suspended::bit(about.form.collective);
    } else if (made == nullptr || !made->for_good) {
      const bool is_native = below(3) != 0;
      plan_.keep({about.key(), is_native ? Method::native() : Method::by(default_algorithm(about.form.collective)),
                  is_native && below(4) == 0});
    }
    for (const auto& rank : ranks_) rank->port.entry()->change({from_, before, plan_});
  }

  // Some ranks give other arguments than others for the same bytes.
  [[nodiscard]] Method do_call(Rank& rank, const Call& call) {
    Dispatcher& dispatcher = rank.dispatcher;
    const bool sized = call.block_bytes.has_value();
    const Dispatcher::Arguments arguments{call.block_bytes.value_or(0), 1 + below(2)};
    if (sized ? dispatcher.again(call.form, arguments) != nullptr : dispatcher.goes_on(call.form)) {
      return Method::native();
    }
    const Answer answer = dispatcher.decide(call);
    if (sized && answer.lasts != Lasts::once) dispatcher.remember(call.form, arguments, answer);
    return answer.way == Way::native ? Method::native() : Method::by(answer.algorithm);
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Call> calls_;
  DispatchPlan plan_;
  std::uint64_t from_ = 0;
};

// Only the first rank interrupts its runs to look for trials. Ranks that count differently would change their plans at
// different calls.
TEST_F(DispatcherTest, AllRanksCountAndDecideAlike) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const auto done = Group(seed).run();
    for (const auto& of_rank : done) ASSERT_TRUE(of_rank == done[0]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace outrigger::steer
