// Keepers of jobs that share cores notice each other.
#include "service/keeper/supervise/neighbours.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/node.hpp"
#include "support/eventually.hpp"

namespace outrigger::service {
namespace {

using Clock = Neighbours::Clock;
constexpr int kHeardWithinMs = 20'000;

std::string near_scope() {
  return "near-" + std::to_string(::getpid());
}

CoreClaim claim_of(const std::string& job, pid_t pid = ::getpid()) {
  return {CoreClaim::By::service, 3, job, pid};
}

// A keeper's part.
struct NearKeeper {
  explicit NearKeeper(std::string name) : job(std::move(name)), neighbours(Claimant{near_scope(), job}, events) {
    neighbours.open();
  }
  // True if a connection opened or closed.
  [[nodiscard]] bool has_event(int within_ms = kHeardWithinMs) {
    const std::vector<Event> heard = events.wait(within_ms);
    if (heard.empty()) return false;
    EXPECT_EQ(heard.front().source, Source::neighbour);
    neighbours.handle_event();
    return true;
  }
  // As in the keeper's loop: handles events, then looks in its time.
  [[nodiscard]] bool looks_after_news() {
    if (!has_event()) return false;
    EXPECT_FALSE(neighbours.time_to_look(now)) << "not at once: more may come";
    now = neighbours.next_look().value_or(now);
    return neighbours.time_to_look(now);
  }

  std::string job;
  Clock::time_point now = Clock::now();
  Events events{[this] { return now; }};
  Neighbours neighbours;
};

TEST(Neighbours, EarlierKeeperNoticesTheLaterOneAndItsEnd) {
  NearKeeper earlier("one");
  EXPECT_FALSE(earlier.has_event(0)) << "nobody else is there";
  {
    NearKeeper later("two");
    later.neighbours.meet({claim_of("one")});
    EXPECT_TRUE(earlier.looks_after_news());
    EXPECT_FALSE(earlier.has_event(0)) << "it is told once";
    later.neighbours.meet({claim_of("one")});
    EXPECT_FALSE(earlier.has_event(0)) << "they have met";
    EXPECT_FALSE(later.neighbours.next_look()) << "nobody is looked for";
  }
  EXPECT_TRUE(earlier.looks_after_news());
  EXPECT_FALSE(earlier.has_event(0));
  EXPECT_FALSE(earlier.neighbours.next_look());
}

TEST(Neighbours, LaterKeeperNoticesTheEndOfTheEarlierOne) {
  auto earlier = std::make_unique<NearKeeper>("one");
  NearKeeper later("two");
  later.neighbours.meet({claim_of("one")});
  ASSERT_TRUE(earlier->looks_after_news());
  earlier.reset();
  EXPECT_TRUE(later.looks_after_news());
  EXPECT_FALSE(later.has_event(0));
}

TEST(Neighbours, KillIsNoticed) {
  NearKeeper earlier("one");
  const pid_t self = ::getpid();
  const std::string name = near_scope();
  const pid_t child = ::fork();
  if (child == 0) {
    Events events;
    Neighbours neighbours(Claimant{name, "two"}, events);
    neighbours.open();
    neighbours.meet({claim_of("one", self)});
    while (true) ::pause();
  }
  EXPECT_TRUE(earlier.looks_after_news());
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(earlier.looks_after_news());
}

TEST(Neighbours, LeftoverClaimsAreLookedAtALimitedNumberOfTimes) {
  NearKeeper later("two");
  auto earlier = std::make_unique<NearKeeper>("one");
  later.neighbours.meet({claim_of("one"), claim_of("nobody-listens")});
  earlier.reset();
  ASSERT_TRUE(later.has_event());
  int looks = 0;
  for (auto next = later.neighbours.next_look(); next; next = later.neighbours.next_look()) {
    ASSERT_LT(++looks, 100);
    ASSERT_GT(*next, later.now);
    later.now = *next;
    ASSERT_TRUE(later.neighbours.time_to_look(*next));
    later.neighbours.meet({claim_of("one"), claim_of("nobody-listens")});
  }
  EXPECT_GT(looks, 3);
  EXPECT_LT(looks, 12);
  EXPECT_FALSE(later.has_event(0));
}

TEST(Neighbours, StrangersAreRateLimitedAndDroppedWhenTheySend) {
  NearKeeper keeper("one");
  const std::string name = "outrigger-keeper:" + near_scope() + ":one:" + std::to_string(::getpid());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 10; ++i) strangers.push_back(testing::connect_to(name));
  ASSERT_TRUE(strangers.back().valid());
  ASSERT_TRUE(keeper.has_event());
  strangers.push_back(testing::connect_to(name));
  EXPECT_FALSE(keeper.has_event(0)) << "it looks in a moment anyway";
  ASSERT_TRUE(keeper.neighbours.time_to_look(*keeper.neighbours.next_look()));
  EXPECT_FALSE(keeper.has_event(0)) << "all have been let in";
  ASSERT_EQ(::write(strangers[3].get(), "x", 1), 1);
  EXPECT_TRUE(keeper.has_event());
  char nothing = 0;
  EXPECT_EQ(::read(strangers[3].get(), &nothing, 1), 0) << "the connection is closed";
  EXPECT_EQ(::recv(strangers[4].get(), &nothing, 1, MSG_DONTWAIT), -1) << "that of others is not";
}

TEST(Neighbours, OtherScopesAreIgnored) {
  NearKeeper keeper("one");
  Events events;
  Neighbours apart(Claimant{near_scope() + "x", "two"}, events);
  apart.open();
  apart.meet({claim_of("one")});
  EXPECT_FALSE(keeper.has_event(0));
}

TEST(Neighbours, OffIsOff) {
  Events events;
  Neighbours neighbours(Claimant{}, events);
  neighbours.open();
  EXPECT_FALSE(neighbours.next_look());
}

// Two whole keepers. The first one's service process writes its state into its ranks' segments.
class Jobs : public ::testing::Test {
 protected:
  using Node = testing::Node;
  using Clients = std::vector<Result<client::AttachedEndpoint>>;

  static testing::NodeOptions job(const std::string& name) {
    testing::NodeOptions options;
    options.service_cpus = {usable_cpus().back()};
    options.claims = Claimant{near_scope(), name};
    return options;
  }
  static pid_t other_job(const Clients& clients) { return clients[0].value()->statistics().service_other_job; }
};

TEST_F(Jobs, FirstJobsServiceProcessIsToldOfTheSecondJob) {
  Node first(job("one"));
  const Clients ranks = first.attach_all();
  ASSERT_TRUE(ranks[0] && ranks[1]);
  EXPECT_EQ(other_job(ranks), 0);
  {
    Node second(job("two"));
    const Clients others = second.attach_all();
    ASSERT_TRUE(others[0] && others[1]);
    EXPECT_NE(others[0].value()->welcome().other_job, 0);
    EXPECT_EQ(others[0].value()->welcome().core_share, copy::CoreShare::shared);
    EXPECT_TRUE(eventually([&] { return other_job(others) == ::getpid(); }));
    EXPECT_TRUE(eventually([&] { return other_job(ranks) == ::getpid(); }));
  }
}

TEST_F(Jobs, SeparateScopesDoNotSeeEachOther) {
  Node first(job("one"));
  const Clients ranks = first.attach_all();
  testing::NodeOptions apart = job("two");
  apart.claims.scope += "x";
  Node second(apart);
  const Clients others = second.attach_all();
  ASSERT_TRUE(ranks[0] && others[0]);
  EXPECT_EQ(others[0].value()->welcome().other_job, 0);
}

}  // namespace
}  // namespace outrigger::service
