#include "service/placement/placement.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "service/placement/bind_exec.hpp"

namespace outrigger::service {
namespace {

// `domains` NUMA domains of `cores` cores with one hardware thread each.
Topology machine(int domains, int cores) {
  Topology topology;
  for (int cpu = 0; cpu < domains * cores; ++cpu) topology.cores.push_back(Core{{cpu}, cpu / cores});
  return topology;
}

NodeRequest request_of(const std::string& bind, std::uint32_t ranks, std::uint32_t services) {
  Result<BindRequest> parsed = parse_bind(bind);
  EXPECT_TRUE(parsed.ok()) << bind;
  NodeRequest request;
  request.bind = std::move(parsed).value();
  request.ranks = ranks;
  request.services = services;
  return request;
}

std::vector<std::vector<int>> cpus_of(const NodePlacement& placement) {
  std::vector<std::vector<int>> cpus;
  for (const RankPlace& rank : placement.ranks) cpus.push_back(rank.cpus);
  return cpus;
}

using Lists = std::vector<std::vector<int>>;

TEST(NodePlacement, BunchTakesConsecutiveCoresAndKeepsTheLast) {
  const auto placed = place_node(request_of("bunch", 3, 0), machine(2, 2));
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(cpus_of(placed.value()), (Lists{{0}, {1}, {2}}));
  EXPECT_EQ(placed.value().service_cpus, std::vector<int>{3});
}

TEST(NodePlacement, ScatterTakesDomainsInTurn) {
  const auto placed = place_node(request_of("scatter", 4, 2), machine(2, 4));
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(cpus_of(placed.value()), (Lists{{0}, {4}, {1}, {5}}));
  EXPECT_EQ(placed.value().service_cpus, (std::vector<int>{3, 7}));
  EXPECT_EQ(placed.value().ranks[2].service, 0U);
  EXPECT_EQ(placed.value().ranks[1].service, 1U);
}

TEST(NodePlacement, HybridGivesEachRankABlockOfOneDomain) {
  const auto placed = place_node(request_of("hybrid", 4, 2), machine(2, 5));
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(cpus_of(placed.value()), (Lists{{0, 1}, {2, 3}, {5, 6}, {7, 8}}));
}

TEST(NodePlacement, AListIsTakenAsGiven) {
  EXPECT_EQ(cpus_of(place_node(request_of("3,0", 2, 0), machine(1, 4)).value()), (Lists{{3}, {0}}));
  EXPECT_EQ(cpus_of(place_node(request_of("3:0-1", 2, 0), machine(1, 4)).value()), (Lists{{3}, {0, 1}}));
  EXPECT_FALSE(place_node(request_of("3", 2, 0), machine(1, 4)).ok());
  EXPECT_FALSE(place_node(request_of("3,9", 2, 0), machine(1, 4)).ok());
}

TEST(NodePlacement, RanksHaveAllCoresWithServiceProcessesOnADpu) {
  NodeRequest request = request_of("bunch", 4, 2);
  request.keep = KeptCores::none;
  request.service_cpus = {0};
  const auto placed = place_node(request, machine(1, 4));
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(cpus_of(placed.value()), (Lists{{0}, {1}, {2}, {3}}));
  EXPECT_TRUE(placed.value().service_cpus.empty());
}

TEST(NodePlacement, SpareKeepsOnlyCoresThatRanksDoNotNeed) {
  const auto kept = [](const std::string& bind, std::uint32_t ranks, std::vector<int> named = {}) {
    NodeRequest request = request_of(bind, ranks, 2);
    request.keep = KeptCores::spare;
    request.service_cpus = std::move(named);
    return place_node(request, machine(1, 4)).value();
  };
  EXPECT_EQ(kept("bunch", 2).service_cpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(kept("bunch", 3).service_cpus, std::vector<int>{3});
  const NodePlacement full = kept("bunch", 4);
  EXPECT_EQ(cpus_of(full), (Lists{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(full.services.front().cpu, -1);
  EXPECT_TRUE(kept("scatter", 9).service_cpus.empty());
  EXPECT_EQ(kept("hybrid", 2).service_cpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(kept("bunch", 4, {1}).service_cpus, std::vector<int>{1}) << "that is as the user wants it";
  EXPECT_EQ(kept("0,0,1,1", 4).service_cpus, (std::vector<int>{2, 3})) << "and so is a list";
}

TEST(NodePlacement, CoresNamedForServiceProcessesAreLeftToThem) {
  NodeRequest request = request_of("bunch", 2, 0);
  request.service_cpus = {0};
  const auto placed = place_node(request, machine(1, 4));
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(cpus_of(placed.value()), (Lists{{1}, {2}}));
  request.service_cpus = {4};
  EXPECT_FALSE(place_node(request, machine(1, 4)).ok());
}

TEST(NodePlacement, RanksKeepAtLeastOneCore) {
  const auto placed = place_node(request_of("bunch", 2, 3), machine(1, 1));
  ASSERT_TRUE(placed.ok());
  EXPECT_TRUE(placed.value().service_cpus.empty());
  EXPECT_TRUE(placed.value().ranks[0].shared);
}

TEST(NodePlacement, SimulatedNodesHaveTheirOwnServiceProcesses) {
  NodeRequest request = request_of("bunch", 4, 1);
  request.nodes = 2;
  const auto placed = place_node(request, machine(1, 8));
  ASSERT_TRUE(placed.ok());
  ASSERT_EQ(placed.value().services.size(), 2U);
  EXPECT_NE(placed.value().services[0].cpu, placed.value().services[1].cpu);
  EXPECT_EQ(placed.value().ranks[1].service, 0U);
  EXPECT_EQ(placed.value().ranks[2].service, 1U);
  request.nodes = 5;
  EXPECT_FALSE(place_node(request, machine(1, 8)).ok());
}

TEST(ServiceMap, LoadsDifferByAtMostOne) {
  for (int services = 1; services <= 5; ++services) {
    for (int ranks = services; ranks <= 17; ++ranks) {
      for (int domains = 1; domains <= 3; ++domains) {
        std::vector<int> rank_domains;
        std::vector<int> service_domains;
        for (int rank = 0; rank < ranks; ++rank) rank_domains.push_back(rank * rank % (domains + 1) - 1);
        for (int sp = 0; sp < services; ++sp) service_domains.push_back(sp % domains);
        std::map<std::uint32_t, int> loads;
        for (const std::uint32_t sp : services_of_ranks(rank_domains, service_domains)) ++loads[sp];
        ASSERT_EQ(loads.size(), static_cast<std::size_t>(services));
        const auto [least, most] = std::minmax_element(
            loads.begin(), loads.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
        EXPECT_LE(most->second - least->second, 1);
      }
    }
  }
}

TEST(ServiceMap, EqualDomainsGiveBlocks) {
  EXPECT_EQ(services_of_ranks({0, 0, 0, 0}, {0, 0, 0}), (std::vector<std::uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(services_of_ranks({-1, -1, -1}, {-1, -1}), (std::vector<std::uint32_t>{0, 0, 1}));
}

TEST(ServiceMap, TheOwnDomainGoesFirst) {
  EXPECT_EQ(services_of_ranks({1, 0, 1, 0}, {0, 1}), (std::vector<std::uint32_t>{1, 0, 1, 0}));
  EXPECT_EQ(services_of_ranks({0, 0, 0, 1}, {0, 1}), (std::vector<std::uint32_t>{0, 0, 1, 1}));
}

TEST(SlurmTasks, AreReadByNode) {
  EXPECT_EQ(tasks_of_node("2(x3),1", 0).value(), 2U);
  EXPECT_EQ(tasks_of_node("2(x3),1", 2).value(), 2U);
  EXPECT_EQ(tasks_of_node("2(x3),1", 3).value(), 1U);
  for (const char* bad : {"", "x", "2(x", "2(3)", "2(x3"}) EXPECT_FALSE(tasks_of_node(bad, 0).ok()) << bad;
  EXPECT_FALSE(tasks_of_node("2(x3),1", 4).ok());
}

// Sets a launcher's variables during a test.
class Launcher {
 public:
  explicit Launcher(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Launcher() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

 private:
  std::map<std::string, std::string> variables_;
};

TEST(LocalRank, IsTheLaunchers) {
  {
    const Launcher launcher({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}});
    EXPECT_EQ(local_rank_of_environment().value().size, 3U);
  }
  {
    const Launcher launcher({{"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "4"}});
    EXPECT_EQ(local_rank_of_environment().value().rank, 2U);
  }
  {
    const Launcher launcher({{"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "3"}, {"SLURM_TASKS_PER_NODE", "1(x3),2"}});
    EXPECT_EQ(local_rank_of_environment().value().size, 2U);
  }
  EXPECT_FALSE(local_rank_of_environment().ok());
  const Launcher launcher({{"MPI_LOCALRANKID", "4"}, {"MPI_LOCALNRANKS", "4"}});
  EXPECT_FALSE(local_rank_of_environment().ok());
}

TEST(BindRequest, RefusesUnknownPolicies) {
  EXPECT_EQ(parse_kept_cores("spare").value(), KeptCores::spare);
  EXPECT_FALSE(parse_kept_cores("spares").ok());
  for (const char* bad : {"", "bunches", "0,x", "0::1", "-"}) EXPECT_FALSE(parse_bind(bad).ok()) << bad;
}

}  // namespace
}  // namespace outrigger::service
