// Core claims, and how a job reacts to those of others.
#include "service/placement/core_claims.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/placement/placement.hpp"

namespace outrigger::service {
namespace {

using copy::CoreShare;
using By = CoreClaim::By;

// A scope of its own, so that no job on this machine is disturbed.
std::string scope() {
  return "test-" + std::to_string(::getpid());
}

CoreClaims claims_of(const std::string& job, const std::string& name = scope()) {
  return CoreClaims(Claimant{name, job});
}

TEST(CoreClaims, SecondJobIsRefusedAndSeesTheOwner) {
  CoreClaims first = claims_of("one");
  ASSERT_TRUE(first.claim_service({2, 6}));
  EXPECT_TRUE(first.claim_service({2, 6})) << "two service processes of a job on one core";
  CoreClaims second = claims_of("two");
  EXPECT_FALSE(second.claim_service({2, 6}));
  EXPECT_FALSE(second.claim_service({6})) << "a cpuset with a part of the core";
  EXPECT_TRUE(second.claim_service({3}));
  EXPECT_EQ(second.others().one_at({2}), ::getpid());
  EXPECT_TRUE(second.others().services.test(6));
  EXPECT_EQ(second.others().one_at({3}), 0) << "its own";
  EXPECT_EQ(first.others().one_at({2, 6}), 0);
}

TEST(CoreClaims, OneJobHasSeveralKeepers) {
  CoreClaims first = claims_of("one");
  ASSERT_TRUE(first.claim_service({2}));
  CoreClaims pretended = claims_of("one");
  EXPECT_TRUE(pretended.claim_service({2}));
  EXPECT_EQ(pretended.others().one_at({2}), 0);
}

TEST(CoreClaims, DroppedOrRefusedCoresAreFree) {
  CoreClaims first = claims_of("one");
  CoreClaims second = claims_of("two");
  ASSERT_TRUE(first.claim_service({2}));
  EXPECT_FALSE(second.claim_service({1, 2}));
  EXPECT_TRUE(claims_of("three").claim_service({1})) << "a part of a core that was refused is not kept";
  first.drop_services();
  EXPECT_TRUE(second.claim_service({1, 2}));
}

TEST(CoreClaims, SharedCoreStaysTakenWhenTheFirstJobEnds) {
  auto first = std::make_unique<CoreClaims>(Claimant{scope(), "one"});
  ASSERT_TRUE(first->claim_service({2}));
  CoreClaims second = claims_of("two");
  second.share_service({2});
  first.reset();
  EXPECT_TRUE(claims_of("three").others().services.test(2));
}

TEST(CoreClaims, AreFreedWhenTheProcessEnds) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const std::string name = scope();
  const pid_t child = ::fork();
  if (child == 0) {
    CoreClaims claims(Claimant{name, "one"});
    claims.claim_ranks({0, 1});
    const char good = claims.claim_service({2}) ? 'y' : 'n';
    (void)!::write(ready[1], &good, 1);
    while (true) ::pause();
  }
  char good = 0;
  ASSERT_EQ(::read(ready[0], &good, 1), 1);
  EXPECT_EQ(good, 'y');
  CoreClaims second = claims_of("two");
  EXPECT_FALSE(second.claim_service({2}));
  EXPECT_EQ(second.others().one_at({2}), child);
  EXPECT_EQ(cpus_of(second.others().ranks), (std::vector<int>{0, 1}));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(second.claim_service({2}));
  EXPECT_TRUE(second.others().claims.empty());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(CoreClaims, OfRanksRefuseNoJob) {
  CoreClaims first = claims_of("one");
  CoreClaims second = claims_of("two");
  first.claim_ranks({0, 1});
  second.claim_ranks({1});
  EXPECT_TRUE(second.others().ranks.test(1));
  EXPECT_TRUE(first.others().ranks.test(1));
  EXPECT_TRUE(second.claim_service({0})) << "whether that is wise is decided by who places";
  first.drop();
  EXPECT_TRUE(second.others().claims.empty());
}

TEST(CoreClaims, AreOfOneScope) {
  CoreClaims first = claims_of("one");
  ASSERT_TRUE(first.claim_service({2}));
  CoreClaims apart = claims_of("two", scope() + "x");
  EXPECT_TRUE(apart.claim_service({2}));
  EXPECT_TRUE(apart.others().claims.empty());
  CoreClaims off = claims_of("three", "");
  EXPECT_TRUE(off.claim_service({2}));
  off.claim_ranks({2});
  EXPECT_TRUE(off.others().claims.empty());
  EXPECT_FALSE(first.others().ranks.test(2));
}

TEST(CoreClaims, RefusedNameWithoutAClaimIsAnotherJobs) {
  const UniqueFd forger(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string name = "outrigger-core:" + scope() + ":2";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(forger.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  EXPECT_FALSE(claims_of("two").claim_service({2}));
}

TEST(CoreClaims, OnlyWholeNamesAreRead) {
  const std::string head = "0000000000000000: 00000002 00000000 00000000 0002 01 4711 ";
  std::string text = "Num       RefCount Protocol Flags    Type St Inode Path\n";
  for (const char* name :
       {"@outrigger-claim:s:service:7:job-1:42", "@outrigger-claim:s:ranks:0:job_1:42",
        // Not claims of this scope:
        "/tmp/@outrigger-claim:s:service:1:job:42", "@outrigger-claim:t:service:1:job:42",
        "@outrigger-claim:s:services:1:job:42", "@outrigger-claim:s:service:-1:job:42",
        "@outrigger-claim:s:service:99999999:job:42", "@outrigger-claim:s:service::job:42",
        "@outrigger-claim:s:service:1x:job:42", "@outrigger-claim:s:service:1:a b:42",
        "@outrigger-claim:s:service:1:\x1b[31m:42", "@outrigger-claim:s:service:1::42",
        "@outrigger-claim:s:service:1:job:", "@outrigger-claim:s:service:1:job:0",
        "@outrigger-claim:s:service:1:job:42:1", "@outrigger-claim:s:service:1:a-word-of-more-than-24-letters:42",
        "@outrigger-claim:", "@", ""}) {
    text += head + name + "\n";
  }
  const std::vector<CoreClaim> claims = parse_claims(text, "s");
  ASSERT_EQ(claims.size(), 2U);
  EXPECT_EQ(claims[0].by, By::service);
  EXPECT_EQ(claims[0].cpu, 7);
  EXPECT_EQ(claims[0].job, "job-1");
  EXPECT_EQ(claims[0].pid, 42);
  EXPECT_EQ(claims[1].by, By::ranks);
  EXPECT_TRUE(parse_claims("@outrigger-claim:s:service:7:job:42", "s").empty()) << "no line of the kernel's";
}

TEST(Claimant, IsTwoWords) {
  EXPECT_EQ(parse_claimant("on:run-1").value().scope, "on");
  EXPECT_EQ(parse_claimant("on:run-1").value().job, "run-1");
  EXPECT_EQ(parse_claimant("").value().scope, "");
  EXPECT_EQ(parse_claimant(":run-1").value().scope, "") << "it claims nothing";
  EXPECT_EQ(parse_claimant(":run-1").value().job, "run-1") << "and is told from other jobs all the same";
  for (const char* bad : {"on", "on:", ":", "on:a:b", "a b:c", "on:a-word-of-more-than-24-letters"}) {
    EXPECT_FALSE(parse_claimant(bad).ok()) << bad;
  }
}

Topology cores(int count) {
  Topology topology;
  for (int core = 0; core < count; ++core) topology.cores.push_back({{core}, 0});
  return topology;
}

OtherJobs others(const std::vector<int>& services, const std::vector<int>& ranks) {
  std::vector<CoreClaim> claims;
  for (const int cpu : services) claims.push_back({By::service, cpu, "other", 42});
  for (const int cpu : ranks) claims.push_back({By::ranks, cpu, "other", 43});
  return other_jobs(std::move(claims), "mine");
}

PlacementRequest request(std::uint32_t ranks, const OtherJobs& taken) {
  PlacementRequest wanted;
  wanted.local_size = ranks;
  wanted.usable_cpus = 4;
  wanted.others = taken;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) wanted.used_by_ranks.set(rank);
  return wanted;
}

TEST(PlaceServices, AvoidOtherJobs) {
  std::vector<ServicePlace> places = place_services(request(1, others({3}, {})), cores(4));
  EXPECT_EQ(places[0].cpu, 2);
  EXPECT_EQ(places[0].core_share, CoreShare::own);
  EXPECT_EQ(places[0].other_job, 0);
  places = place_services(request(1, others({3}, {2})), cores(4));
  EXPECT_EQ(places[0].cpu, 1);
  EXPECT_EQ(places[0].core_share, CoreShare::own);
}

TEST(PlaceServices, PreferSharingWithServicesOverRanks) {
  std::vector<ServicePlace> places = place_services(request(1, others({3}, {1, 2})), cores(4));
  EXPECT_EQ(places[0].cpu, 3);
  EXPECT_EQ(places[0].core_share, CoreShare::shared);
  EXPECT_EQ(places[0].other_job, 42);
  places = place_services(request(1, others({}, {1, 2, 3})), cores(4));
  EXPECT_EQ(places[0].cpu, -1) << "as where the own ranks have all cores";
  EXPECT_EQ(places[0].core_share, CoreShare::none);
}

TEST(PlaceServices, AreAtMostOnePerFreeCore) {
  PlacementRequest wanted = request(20, others({30}, {}));
  EXPECT_EQ(place_services(wanted, cores(32)).size(), 3U);
  wanted.others = others({20, 21, 22, 23, 24, 25, 26, 27, 28, 30}, {});
  const std::vector<ServicePlace> places = place_services(wanted, cores(32));
  EXPECT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].core_share, CoreShare::own);
  EXPECT_EQ(places[1].core_share, CoreShare::own);
}

TEST(PlaceServices, ObeyTheUserAndReportOtherJobs) {
  PlacementRequest wanted = request(1, others({3}, {2}));
  wanted.service_cpus = {2};
  std::vector<ServicePlace> places = place_services(wanted, cores(4));
  EXPECT_EQ(places[0].cpu, 2);
  EXPECT_EQ(places[0].core_share, CoreShare::shared);
  EXPECT_EQ(places[0].other_job, 43);
  wanted.service_cpus = {1};
  places = place_services(wanted, cores(4));
  EXPECT_EQ(places[0].core_share, CoreShare::own);
}

NodeRequest node_request(std::uint32_t ranks, const OtherJobs& taken) {
  NodeRequest wanted;
  wanted.ranks = ranks;
  wanted.others = taken;
  return wanted;
}

TEST(PlaceNode, AvoidsCoresOfOtherJobs) {
  const NodePlacement placed = place_node(node_request(2, others({7}, {0, 1})), cores(8)).value();
  EXPECT_EQ(placed.ranks[0].cpus, std::vector<int>{2});
  EXPECT_EQ(placed.ranks[1].cpus, std::vector<int>{3});
  EXPECT_EQ(placed.service_cpus, std::vector<int>{6});
  EXPECT_EQ(placed.services[0].core_share, CoreShare::own);
}

TEST(PlaceNode, SharesIfThereAreTooFewCores) {
  const NodePlacement placed = place_node(node_request(2, others({1}, {0})), cores(2)).value();
  EXPECT_EQ(placed.ranks[0].cpus, std::vector<int>{0});
  EXPECT_EQ(placed.service_cpus, std::vector<int>{1}) << "services sooner than ranks";
  EXPECT_EQ(placed.services[0].core_share, CoreShare::shared);
  const NodePlacement more = place_node(node_request(2, others({3}, {0})), cores(4)).value();
  EXPECT_EQ(more.service_cpus, std::vector<int>{2});
  EXPECT_EQ(more.services[0].core_share, CoreShare::own);
}

TEST(PlaceNode, ObeysTheUser) {
  NodeRequest wanted = node_request(2, others({7}, {0, 1}));
  wanted.service_cpus = {7};
  NodePlacement placed = place_node(wanted, cores(8)).value();
  EXPECT_EQ(placed.service_cpus, std::vector<int>{7});
  EXPECT_EQ(placed.services[0].core_share, CoreShare::shared);
  wanted = node_request(2, others({7}, {0, 1}));
  wanted.bind = parse_bind("0,1").value();
  placed = place_node(wanted, cores(8)).value();
  EXPECT_EQ(placed.ranks[0].cpus, std::vector<int>{0});
  EXPECT_EQ(placed.service_cpus, std::vector<int>{6});
}

}  // namespace
}  // namespace outrigger::service
