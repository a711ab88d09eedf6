#include "client/start/node_layout.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace outrigger::client::test {
namespace {

CpuRanges cpus(std::vector<int> numbers) {
  std::vector<std::uint64_t> mask(1024 / 64);
  for (const int cpu : numbers) mask[static_cast<std::size_t>(cpu) / 64] |= std::uint64_t{1} << (cpu % 64);
  return CpuRanges::of(mask);
}

std::vector<RankOrigin> on_hosts(const std::vector<std::uint64_t>& hosts) {
  std::vector<RankOrigin> ranks;
  for (const std::uint64_t host : hosts) ranks.push_back({100 + host, host, cpus({0})});
  return ranks;
}

TEST(CpuRanges, CountAndIntersect) {
  const CpuRanges one = cpus({0, 1, 2, 3, 63, 64, 65, 200});
  EXPECT_EQ(one.count(), 8U);
  EXPECT_EQ(one.common_with(cpus({3, 4, 64, 200, 201})), 3U);
  EXPECT_EQ(one.common_with(cpus({5, 6})), 0U);
  EXPECT_EQ(CpuRanges{}.count(), 0U);
}

TEST(CpuRanges, TooManyRangesLoseTheirSmallestGaps) {
  const std::vector<int> numbers = {0, 10, 20, 30, 40, 50, 60, 70, 72};
  const CpuRanges found = cpus(numbers);
  for (const int number : numbers) EXPECT_EQ(found.common_with(cpus({number})), 1U) << number;
  EXPECT_EQ(found.count(), 10U);
  EXPECT_EQ(found.common_with(cpus({71})), 1U);
}

TEST(CpuRanges, MineAreTheSystems) {
  cpu_set_t mine;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(mine), &mine), 0);
  EXPECT_GE(CpuRanges::mine().count(), static_cast<std::uint32_t>(CPU_COUNT(&mine)));
}

TEST(RankOrigin, IsTheSameForAllProcessesOfAHost) {
  const RankOrigin here = RankOrigin::mine();
  EXPECT_NE(here.host, 0U);
  EXPECT_EQ(here.host, RankOrigin::mine().host);
  EXPECT_EQ(here.machine, RankOrigin::mine().machine);
}

TEST(NodeLayout, NodesCountInTheOrderOfTheirFirstRanks) {
  const auto ranks = on_hosts({7, 3, 7, 3, 3, 9});
  const NodeLayout layout(ranks, 4, 1);
  EXPECT_EQ(layout.nodes(), 3U);
  EXPECT_EQ(layout.node_of_rank, (std::vector<std::uint32_t>{0, 1, 0, 1, 1, 2}));
  EXPECT_EQ(layout.leaders, (std::vector<std::uint32_t>{0, 1, 5}));
  EXPECT_EQ(layout.local_rank, 2U);
  EXPECT_EQ(layout.local_size, 3U);
  EXPECT_EQ(layout.keepers_here, 1U);
}

TEST(NodeLayout, SameNameOnAnotherMachineIsAnotherNode) {
  std::vector<RankOrigin> ranks = on_hosts({5, 5});
  ranks[1].machine = 1;
  EXPECT_EQ(NodeLayout(ranks, 0, 1).nodes(), 2U);
  ranks[0].machine = ranks[1].machine = 0;  // unknown: the name decides
  EXPECT_EQ(NodeLayout(ranks, 0, 1).nodes(), 1U);
}

TEST(NodeLayout, HostsPretendToBeSeveralNodes) {
  const auto ranks = on_hosts({1, 2, 1, 1, 1, 1});  // five ranks of one host, one of the other
  const NodeLayout layout(ranks, 4, 2);
  EXPECT_EQ(layout.node_of_rank, (std::vector<std::uint32_t>{0, 1, 0, 0, 2, 2}));
  EXPECT_EQ(layout.leaders, (std::vector<std::uint32_t>{0, 1, 4}));
  EXPECT_EQ(layout.local_rank, 0U);
  EXPECT_EQ(layout.local_size, 2U);
  EXPECT_EQ(layout.keepers_here, 2U);
  EXPECT_EQ(layout.number_here, 1U);
  EXPECT_EQ(NodeLayout(ranks, 1, 2).keepers_here, 1U);  // no more than it has ranks
}

TEST(NodeLayout, AllRanksFindTheSame) {
  std::mt19937 generator(1);
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> hosts(1 + random() % 20);
    for (std::uint64_t& host : hosts) host = random() % 4;
    const auto ranks = on_hosts(hosts);
    const std::uint32_t pretended = 1 + random() % 3;
    const NodeLayout first(ranks, 0, pretended);
    std::map<std::uint32_t, std::set<std::uint32_t>> local_ranks;
    std::map<std::uint64_t, std::set<std::uint32_t>> numbers;
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const NodeLayout layout(ranks, rank, pretended);
      ASSERT_EQ(layout.node_of_rank, first.node_of_rank);
      ASSERT_EQ(layout.leaders, first.leaders);
      const std::uint32_t node = layout.node_of_rank[rank];
      ASSERT_EQ(layout.local_rank == 0, layout.leaders[node] == rank);
      ASSERT_TRUE(local_ranks[node].insert(layout.local_rank).second);
      ASSERT_LT(layout.local_rank, layout.local_size);
      ASSERT_LT(layout.number_here, layout.keepers_here);
      numbers[hosts[rank]].insert(layout.number_here);
      ASSERT_EQ(hosts[layout.leaders[node]], hosts[rank]);
    }
    for (const auto& [node, places] : local_ranks) {
      ASSERT_EQ(places.size(), NodeLayout(ranks, first.leaders[node], pretended).local_size);
    }
  }
}

TEST(CoreLoad, RanksSpreadOverWhatTheyMayUse) {
  std::vector<RankOrigin> ranks = on_hosts({1, 1, 1, 2});
  ranks[0].cpus = cpus({0, 1});
  ranks[1].cpus = cpus({1});
  ranks[2].cpus = cpus({0, 1, 2, 3});
  const NodeLayout layout(ranks, 0, 1);
  const CoreLoad load = load_of_cores(ranks, layout, 0, 2);
  EXPECT_DOUBLE_EQ(load.cores, 2);
  EXPECT_DOUBLE_EQ(load.ranks, 1 + 1 + 0.5);  // without the one of another machine
  EXPECT_DOUBLE_EQ(load.services, 1);         // two on four cores, two of which are this rank's
}

TEST(CoreLoad, NodesOfOneMachineShareItsCores) {
  std::vector<RankOrigin> ranks = on_hosts({1, 2});
  ranks[1].machine = ranks[0].machine;
  EXPECT_DOUBLE_EQ(load_of_cores(ranks, NodeLayout(ranks, 0, 1), 0, 0).ranks, 2);
  ranks[0].machine = ranks[1].machine = 0;  // unknown: counted as two
  EXPECT_DOUBLE_EQ(load_of_cores(ranks, NodeLayout(ranks, 0, 1), 0, 0).ranks, 1);
}

}  // namespace
}  // namespace outrigger::client::test
