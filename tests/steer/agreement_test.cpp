// Changes of a communicator's dispatch plan: whatever is delayed, all ranks change at the same call, try and choose the
// same methods, and none waits for another. Coordinators, messages and ranks' calls are mixed by a seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "steer/coordinator/coordinator.hpp"
#include "steer/rank/plan_cursor.hpp"

namespace outrigger::steer {
namespace {

constexpr GroupId kGroup{7, 9};

struct Letter {
  SpId from;
  SpId to;
  std::vector<std::byte> bytes;
};

struct CallingRank {
  PlanEntry entry{};
  PlanCursor cursor;
  std::vector<bool> native;     // by call
  std::vector<Method> methods;  // ... that it would have used
  std::uint64_t trials = 0;     // been through
  bool in_call = false;         // counted, and held
  std::uint64_t offloaded = 0;
};

class Job;

class TestHost final : public CoordinatorHost {
 public:
  TestHost(Job& job, SpId self) : job_(job), self_(self) {}
  void send(SpId to, std::span<const std::byte> message) override;
  std::optional<std::uint64_t> hold_calls(WorldRank rank, const GroupId& group) override;
  void resume_calls(WorldRank rank, const GroupId& group, const PlanChange* change) override;

 private:
  Job& job_;
  SpId self_;
};

class Job {
 public:
  Job(std::uint64_t seed, std::vector<std::uint32_t> sp_of_rank) : random(seed), ranks(sp_of_rank.size()) {
    auto members = std::make_shared<std::vector<WorldRank>>();
    CoordinatorConfig config;
    std::uint32_t services = 0;
    for (std::uint32_t rank = 0; rank < sp_of_rank.size(); ++rank) {
      members->emplace_back(rank);
      config.sp_of_rank.emplace_back(sp_of_rank[rank]);
      services = std::max(services, sp_of_rank[rank] + 1);
    }
    members_ = members;
    sp_of_rank_ = config.sp_of_rank;
    for (std::uint32_t sp = 0; sp < services; ++sp) {
      config.self = SpId{sp};
      hosts.push_back(std::make_unique<TestHost>(*this, SpId{sp}));
      coordinators.push_back(std::make_unique<Coordinator>(config, *hosts.back()));
    }
  }

  [[nodiscard]] Coordinator& coordinator_of(std::size_t rank) { return *coordinators[sp_of_rank_[rank].value()]; }
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random() % limit; }

  // All ranks call the same.
  [[nodiscard]] CallKey key_of_call(std::uint64_t number) const {
    const Collective collective = kinds == 1 || number * 7 % 3 == 0 ? Collective::ialltoall : Collective::ialltoallv;
    return CallKey::of(
        collective, false,
        collective == Collective::ialltoall ? std::optional<std::uint64_t>(4096 << number * 5 % kinds) : std::nullopt);
  }
  // For the trial that is over: a window costs as much as its method does.
  void tell_times(std::size_t index, const Trial& trial) {
    TrialTimes times;
    for (std::uint32_t window = 0; window < kTrialWindows; ++window) {
      const Method method = trial.other_in(window) ? trial.other : trial.usual;
      times.lost_ns[window] = cost(method) + below(100);
    }
    times.passed_ns = kTrialWindows * std::uint64_t{5000};
    ++ranks[index].trials;
    ranks[index].entry.put(times);
    coordinator_of(index).measured(WorldRank{static_cast<std::uint32_t>(index)}, kGroup, trial.number,
                                   ranks[index].entry.times());
  }
  void ask_trial() {
    TrialRequest request;
    request.key = key_of_call(below(20));
    request.usual = Method::by(Algorithm::ring_pull);
    request.window_log2 = static_cast<std::uint8_t>(below(2));
    coordinator_of(0).ask_trial(WorldRank{0}, kGroup, request);
  }

  // The first rank's, where it is in one. False: it is not.
  bool give_up_trial() {
    if (!ranks[0].cursor.trying()) return false;
    coordinator_of(0).give_up_trial(WorldRank{0}, kGroup, ranks[0].cursor.trial().number);
    return true;
  }

  // As Dispatcher::decide(); a rank that is held comes back here.
  void call(std::size_t index) {
    CallingRank& rank = ranks[index];
    if (!rank.in_call) rank.entry.calls.fetch_add(1);
    rank.in_call = rank.entry.held.load() != 0;
    if (rank.in_call) return;
    const std::uint64_t number = rank.entry.calls.load() - 1;
    const CallKey key = key_of_call(number);
    const DispatchPlan plan = rank.entry.plan().at(number);
    const Step step = rank.cursor.next(plan, key);
    const Method method =
        ruled ? Method::by(Algorithm::ring_pull) : step.method.value_or(Method::by(Algorithm::ring_pull));
    if (step.ends) tell_times(index, plan.trial);
    rank.methods.push_back(method);
    rank.native.push_back(ruled ? plan.suspended.failing : step.suspended || method.is_native());
    if (rank.native.back()) return;
    ++rank.offloaded;
    coordinator_of(index).posted(WorldRank{static_cast<std::uint32_t>(index)}, kGroup, members_, !ruled);
  }

  void join(std::size_t index) {
    coordinator_of(index).join(WorldRank{static_cast<std::uint32_t>(index)}, kGroup, members_);
  }

  // Another one takes the place of a service process: nothing of the dead one's is listened to any more. It is told by
  // its ranks' groups and, where it leads, by the newest plan that any rank goes by.
  void restart(SpId dead) {
    for (auto& [pair, queue] : letters) {
      if (pair.first == dead || pair.second == dead) queue.clear();
    }
    std::erase_if(letters, [](const auto& item) { return item.second.empty(); });
    ++epochs[dead];
    CoordinatorConfig config;
    config.self = dead;
    config.epoch = Epoch{1 + epochs[dead]};
    config.sp_of_rank = sp_of_rank_;
    coordinators[dead.value()] = std::make_unique<Coordinator>(config, *hosts[dead.value()]);
    Coordinator& coordinator = *coordinators[dead.value()];
    for (std::uint32_t peer = 0; peer < coordinators.size(); ++peer) {
      if (SpId{peer} == dead) continue;
      coordinators[peer]->peer_restarted(dead, config.epoch);
      coordinator.peer_restarted(SpId{peer}, Epoch{1 + epochs[SpId{peer}]});
    }
    PlanChange newest;
    for (const CallingRank& rank : ranks) {
      const PlanChange plan = rank.entry.plan();
      if (plan != PlanChange{} && (newest == PlanChange{} || plan.from > newest.from)) newest = plan;
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (sp_of_rank_[rank] == dead && ranks[rank].offloaded != 0) join(rank);
    }
    coordinator.restore_plan(kGroup, newest);
  }
  // Something happens. Letters of a pair keep their order.
  void step() {
    const std::uint64_t what = below(8);
    if (what < 3) return call(below(ranks.size()));
    if (what < 7 && !letters.empty()) {
      auto pair = letters.begin();
      std::advance(pair, static_cast<std::ptrdiff_t>(below(letters.size())));
      deliver(pair->first);
    }
    if (below(20) == 0) coordinators[below(coordinators.size())]->retry_changes();
  }
  void deliver(std::pair<SpId, SpId> pair) {
    const std::vector<std::byte> bytes = std::move(letters[pair].front());
    letters[pair].pop_front();
    if (letters[pair].empty()) letters.erase(pair);
    ASSERT_TRUE(coordinators[pair.second.value()]->receive(pair.first, bytes));
  }
  // Until nothing is on its way any more. No rank begins a call.
  void settle() {
    while (!letters.empty()) deliver(letters.begin()->first);
  }

  std::uint64_t kinds = 1;  // of calls
  bool ruled = false;       // a rule has all of them offloaded
  std::function<std::uint64_t(Method)> cost = [](Method) { return 1000; };
  std::mt19937_64 random;
  std::vector<CallingRank> ranks;
  std::vector<std::unique_ptr<TestHost>> hosts;
  std::vector<std::unique_ptr<Coordinator>> coordinators;
  std::map<std::pair<SpId, SpId>, std::deque<std::vector<std::byte>>> letters;
  std::map<SpId, std::uint32_t> epochs;  // restarts so far

 private:
  std::shared_ptr<const std::vector<WorldRank>> members_;
  std::vector<SpId> sp_of_rank_;
};

void TestHost::send(SpId to, std::span<const std::byte> message) {
  job_.letters[{self_, to}].emplace_back(message.begin(), message.end());
}

std::optional<std::uint64_t> TestHost::hold_calls(WorldRank rank, const GroupId& group) {
  EXPECT_EQ(group, kGroup);
  PlanEntry& entry = job_.ranks[rank.value()].entry;
  entry.held.store(1);
  return entry.calls.load();
}

void TestHost::resume_calls(WorldRank rank, const GroupId& /*group*/, const PlanChange* change) {
  PlanEntry& entry = job_.ranks[rank.value()].entry;
  if (entry.held.load() == 0) return;
  if (change != nullptr) entry.change(*change);
  entry.held.store(0);
}

Suspended some_suspended(Job& job) {
  const auto bits = [&] { return job.below(2) == 0 ? kEveryCollective : CollectiveBits{0}; };
  return Suspended{job.below(2) == 0 ? bits() : CollectiveBits{0}, bits()};
}

void expect_agreement(const Job& job, std::uint64_t seed) {
  std::size_t longest = 0;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    if (job.ranks[rank].native.size() > job.ranks[longest].native.size()) longest = rank;
  }
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const std::vector<bool>& mine = job.ranks[rank].native;
    EXPECT_TRUE(std::equal(mine.begin(), mine.end(), job.ranks[longest].native.begin()))
        << "rank " << rank << " decided otherwise, seed " << seed;
    const std::vector<Method>& my_methods = job.ranks[rank].methods;
    EXPECT_TRUE(std::equal(my_methods.begin(), my_methods.end(), job.ranks[longest].methods.begin()))
        << "rank " << rank << " used another method, seed " << seed;
    EXPECT_EQ(job.ranks[rank].entry.held.load(), 0U) << "rank " << rank << " is held for ever, seed " << seed;
  }
}

// Held ranks go on, and all get as far as the first: what is offloaded then completes everywhere.
void catch_up(Job& job) {
  job.settle();
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    if (job.ranks[rank].in_call) job.call(rank);
    most = std::max(most, job.ranks[rank].native.size());
  }
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    while (job.ranks[rank].native.size() < most) {
      job.call(rank);
      if (job.ranks[rank].in_call) job.settle();
    }
  }
  job.settle();
}

std::vector<std::uint32_t> shape_of(std::uint64_t seed) {
  std::vector<std::uint32_t> shape(1 + seed % 7);
  for (std::size_t rank = 0; rank < shape.size(); ++rank)
    shape[rank] = static_cast<std::uint32_t>(rank % (1 + seed % 3));
  return shape;
}

TEST(Agreement, ChangesAtTheSameCallOnAllRanksWhateverIsDelayed) {
  std::uint64_t natives = 0;
  std::uint64_t offloaded = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Job job(seed, shape_of(seed));
    for (int i = 0; i < 600; ++i) {
      job.step();
      if (job.below(40) != 0) continue;
      Coordinator& coordinator = *job.coordinators[job.below(job.coordinators.size())];
      if (job.below(2) == 0) {
        coordinator.vote(some_suspended(job));
      } else {
        coordinator.vote(kGroup, some_suspended(job));
      }
    }
    catch_up(job);
    expect_agreement(job, seed);
    natives += static_cast<std::uint64_t>(std::ranges::count(job.ranks[0].native, true));
    offloaded += job.ranks[0].offloaded;
    if (HasFailure()) return;
  }
  EXPECT_GT(natives, 10'000U);
  EXPECT_GT(offloaded, 10'000U);
}

// Methods are tried and chosen while calls are suspended and taken back, and while trials are given up.
TEST(Agreement, TriesAndChoosesTheSameMethodsOnAllRanks) {
  std::uint64_t trials = 0;
  std::uint64_t given_up = 0;
  std::uint64_t methods = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Job job(seed, shape_of(seed));
    job.kinds = 1 + seed % 4;
    job.cost = [&](Method) { return 500 + job.below(1000); };
    for (int i = 0; i < 1200; ++i) {
      job.step();
      if (job.below(60) == 0) job.ask_trial();
      if (job.below(300) == 0) given_up += job.give_up_trial() ? 1 : 0;
      if (job.below(400) != 0) continue;
      job.coordinators[job.below(job.coordinators.size())]->vote(kGroup, some_suspended(job));
    }
    catch_up(job);
    expect_agreement(job, seed);
    trials += job.ranks[0].trials;
    methods +=
        static_cast<std::uint64_t>(std::ranges::count(job.ranks[0].methods, Method::by(Algorithm::scatter_dest)));
    if (HasFailure()) return;
  }
  EXPECT_GT(trials, 2'000U);
  EXPECT_GT(given_up, 2'000U);
  EXPECT_GT(methods, 10'000U);
}

// Service processes die while changes and trials are under way: ranks agree all the same, and none is held for ever.
TEST(Agreement, OutlivesServiceProcesses) {
  std::uint64_t restarts = 0;
  std::uint64_t natives = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Job job(seed, shape_of(seed));
    job.kinds = 1 + seed % 4;
    job.cost = [&](Method) { return 500 + job.below(1000); };
    for (int i = 0; i < 1200; ++i) {
      job.step();
      if (job.below(80) == 0) job.ask_trial();
      if (job.below(100) == 0) job.coordinators[job.below(job.coordinators.size())]->vote(kGroup, some_suspended(job));
      if (job.below(200) != 0) continue;
      job.restart(SpId{static_cast<std::uint32_t>(job.below(job.coordinators.size()))});
      ++restarts;
    }
    catch_up(job);
    expect_agreement(job, seed);
    natives += static_cast<std::uint64_t>(std::ranges::count(job.ranks[0].native, true));
    if (HasFailure()) return;
  }
  EXPECT_GT(restarts, 10'000U);
  EXPECT_GT(natives, 10'000U);
}

void go_through_trial(Job& job) {
  job.ask_trial();
  job.settle();
  for (int call = 0; call < 64; ++call) {
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) job.call(rank);
    job.settle();
  }
}

TEST(Agreement, TheMethodThatCostsLeastIsChosenAndNativeForGoodWhenNothingBeatsIt) {
  for (const Method best : {Method::native(), Method::by(Algorithm::ring_pull), Method::by(Algorithm::scatter_dest)}) {
    Job job(3, {0, 1, 0});
    job.cost = [&](Method method) { return method == best ? 1000 : 2000; };
    for (std::size_t rank = 0; rank < 3; ++rank) job.call(rank);
    job.settle();
    for (int trial = 0; trial < 6; ++trial) go_through_trial(job);
    const PlanChange plan = job.ranks[1].entry.plan();
    const CachedDecision* choice = plan.after.decision(job.key_of_call(0));
    ASSERT_NE(choice, nullptr);
    EXPECT_EQ(choice->method, best);
    EXPECT_EQ(choice->for_good, best.is_native());
    EXPECT_EQ(job.ranks[1].methods.back(), best);
    EXPECT_EQ(job.ranks[1].trials, best.is_native() ? 4U : 6U) << "two of each algorithm's";
  }
}

TEST(Agreement, ATrialThatCostsTooMuchEndsOnAllRanksForTheUsualMethod) {
  Job job(4, {0, 1, 0});
  const auto call_all = [&] {
    for (std::size_t rank = 0; rank < 3; ++rank) job.call(rank);
    job.settle();
  };
  call_all();
  job.ask_trial();
  job.settle();
  for (int call = 0; call < 5; ++call) call_all();
  const Trial trial = job.ranks[0].cursor.trial();
  ASSERT_TRUE(job.ranks[0].cursor.trying());
  job.coordinator_of(1).give_up_trial(WorldRank{1}, kGroup, trial.number);
  job.coordinator_of(0).give_up_trial(WorldRank{0}, kGroup, static_cast<std::uint16_t>(trial.number + 1));
  job.settle();
  call_all();
  EXPECT_TRUE(job.ranks[1].cursor.trying()) << "that was another rank, and another trial";
  job.coordinator_of(0).give_up_trial(WorldRank{0}, kGroup, trial.number);
  job.settle();
  for (int call = 0; call < 40; ++call) call_all();
  for (const CallingRank& rank : job.ranks) {
    EXPECT_FALSE(rank.cursor.trying());
    EXPECT_EQ(rank.trials, 0U);
    EXPECT_EQ(rank.methods.back(), trial.usual);
  }
  EXPECT_EQ(job.ranks[2].entry.plan().after.decision(trial.key)->method, trial.usual);
  expect_agreement(job, 4);
}

// Ranks that have not posted anything are known by what they say.
TEST(Agreement, ACommunicatorThatIsNativeCanBeTried) {
  Job job(5, {0, 1});
  job.cost = [](Method method) { return method.is_native() ? 2000 : 1000; };
  TrialRequest request;
  request.key = job.key_of_call(0);
  for (std::size_t rank = 0; rank < 2; ++rank) job.join(rank);
  job.coordinator_of(0).ask_trial(WorldRank{0}, kGroup, request);
  job.settle();
  for (int call = 0; call < 15; ++call) {
    for (std::size_t rank = 0; rank < 2; ++rank) job.call(rank);
    job.settle();
  }
  const PlanChange plan = job.ranks[1].entry.plan();
  const CachedDecision* choice = plan.after.decision(request.key);
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->method, Method::by(Algorithm::ring_pull));
}

TEST(Agreement, WhatAnEarlierRunHasChosenIsTheBeginningAndATrialGoesBeforeIt) {
  Job job(9, {0, 1});
  job.cost = [](Method method) { return method.is_native() ? 2000 : 1000; };
  for (std::size_t rank = 0; rank < 2; ++rank) job.call(rank);
  job.settle();
  const CallKey key = job.key_of_call(0);
  job.coordinator_of(1).recall(WorldRank{1}, kGroup, CachedDecision{key, Method::native(), false});
  job.settle();
  EXPECT_EQ(job.ranks[0].entry.plan(), PlanChange{}) << "from another than the first rank";
  job.coordinator_of(0).recall(WorldRank{0}, kGroup, CachedDecision{key, Method::native(), false});
  job.settle();
  for (std::size_t rank = 0; rank < 2; ++rank) job.call(rank);
  EXPECT_EQ(job.ranks[1].methods.back(), Method::native());
  go_through_trial(job);
  EXPECT_EQ(job.ranks[1].methods.back(), Method::by(Algorithm::ring_pull));
  job.coordinator_of(0).recall(WorldRank{0}, kGroup, CachedDecision{key, Method::native(), false});
  job.settle();
  job.call(0);
  EXPECT_EQ(job.ranks[0].methods.back(), Method::by(Algorithm::ring_pull)) << "this run knows better";
}

TEST(Agreement, OnlyTheFirstRankAsksAndOnlyForWhatCanBe) {
  Job job(7, {0, 0});
  for (std::size_t rank = 0; rank < 2; ++rank) job.call(rank);
  job.settle();
  TrialRequest request;
  request.key = job.key_of_call(0);
  job.coordinator_of(1).ask_trial(WorldRank{1}, kGroup, request);
  job.coordinator_of(0).ask_trial(WorldRank{0}, GroupId{1, 1}, request);
  request.if_offloaded = Algorithm::hierarchical;
  job.coordinator_of(0).ask_trial(WorldRank{0}, kGroup, request);
  job.settle();
  EXPECT_EQ(job.ranks[0].entry.plan(), PlanChange{});
}

// One vote is enough where a core is taken; small blocks take all votes.
TEST(Agreement, IsBusyWhereOneIsAndSmallWhereAllAre) {
  Job job(1, {0, 1, 2});
  for (std::size_t rank = 0; rank < 3; ++rank) job.call(rank);
  job.settle();
  job.coordinators[1]->vote(kGroup, Suspended{0, kEveryCollective});
  job.coordinators[2]->vote(kGroup, Suspended{0, kEveryCollective});
  job.settle();
  EXPECT_EQ(job.ranks[0].entry.plan().after, DispatchPlan{});
  job.coordinators[0]->vote(kGroup, Suspended{0, kEveryCollective});
  job.settle();
  EXPECT_EQ(job.ranks[2].entry.plan().after.suspended, (Suspended{0, kEveryCollective}));
  for (std::size_t rank = 0; rank < 3; ++rank) job.call(rank);
  job.coordinators[2]->vote(Suspended{kEveryCollective, 0});
  job.settle();
  EXPECT_EQ(job.ranks[1].entry.plan().after.suspended, (Suspended{kEveryCollective, kEveryCollective}));
}

// One vote is enough, for calls that a rule has offloaded too, and also where it leads and where others lead; and
// other service processes may die meanwhile.
TEST(Agreement, WithServiceProcessesThatFailEverythingBecomesNative) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    Job job(seed, shape_of(seed));
    job.ruled = seed % 2 == 0;
    const SpId careful{static_cast<std::uint32_t>(job.below(job.coordinators.size()))};
    const auto vote = [&] { job.coordinators[careful.value()]->vote(Suspended{0, 0, true}); };
    for (std::uint64_t i = 0; i < 400; ++i) {
      job.step();
      if (i == seed % 200) vote();
      if (job.below(200) != 0) continue;
      const SpId dead{static_cast<std::uint32_t>(job.below(job.coordinators.size()))};
      job.restart(dead);
      if (dead == careful && i >= seed % 200) vote();
    }
    constexpr int kCallsUntilThen = 12;
    constexpr int kMostPauses = 1 << 10;
    for (int i = 0; i < kCallsUntilThen; ++i) {
      catch_up(job);
      for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) job.call(rank);
      for (auto& coordinator : job.coordinators) {
        for (int pause = 0; pause < kMostPauses && coordinator->wants_retry(); ++pause) coordinator->retry_changes();
      }
    }
    catch_up(job);
    expect_agreement(job, seed);
    for (const CallingRank& rank : job.ranks) EXPECT_TRUE(rank.native.back()) << "seed " << seed;
    if (HasFailure()) return;
  }
}

TEST(Agreement, ARuleIsHeededAsLongAsServiceProcessesDoNotFail) {
  Job job(1, {0, 1});
  job.ruled = true;
  job.coordinators[1]->vote(Suspended{kEveryCollective, kEveryCollective});
  for (int i = 0; i < 20; ++i) {
    for (std::size_t rank = 0; rank < 2; ++rank) job.call(rank);
    job.settle();
  }
  EXPECT_EQ(job.ranks[0].offloaded, 20U);
  EXPECT_EQ(job.ranks[0].entry.plan(), PlanChange{});
}

// A rank that has not passed the last change goes by the plan before it: the next one waits.
TEST(Agreement, ASecondChangeWaitsUntilAllRanksHavePassedTheFirst) {
  Job job(1, {0, 0});
  job.call(0);
  job.call(0);
  job.call(1);
  job.settle();
  job.coordinators[0]->vote(Suspended{kEveryCollective, 0});
  EXPECT_EQ(job.ranks[1].entry.plan().from, 2U);
  job.coordinators[0]->vote(Suspended{});
  EXPECT_EQ(job.ranks[1].entry.plan().from, 2U);
  EXPECT_TRUE(job.coordinators[0]->wants_retry());
  for (const std::size_t rank : {0U, 1U, 1U}) job.call(rank);
  for (int i = 0; i < 4; ++i) job.coordinators[0]->retry_changes();
  EXPECT_FALSE(job.coordinators[0]->wants_retry());
  EXPECT_EQ(job.ranks[1].entry.plan(),
            (PlanChange{3, DispatchPlan{Suspended{kEveryCollective, 0}, {}, {}}, DispatchPlan{}}));
  job.settle();
}

}  // namespace
}  // namespace outrigger::steer
