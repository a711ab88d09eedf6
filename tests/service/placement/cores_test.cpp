#include "service/placement/cores.hpp"

#include <gtest/gtest.h>

#include <set>

#include "protocol/build_version.hpp"
#include "protocol/options/cpu_list.hpp"
#include "protocol/options/reach.hpp"
#include "service/placement/service_placement.hpp"
#include "service/tools/info.hpp"

namespace outrigger::service {
namespace {

using copy::CoreShare;

// Four cores of two hardware threads each: (0,4) (1,5) (2,6) (3,7).
Topology four_cores() {
  return Topology{{Core{{0, 4}}, Core{{1, 5}}, Core{{2, 6}}, Core{{3, 7}}}};
}

CpuMask mask_of(std::initializer_list<std::size_t> cpus) {
  CpuMask mask;
  for (const std::size_t cpu : cpus) mask.set(cpu);
  return mask;
}

PlacementRequest request_of(std::uint32_t ranks, std::uint32_t services, CpuMask used) {
  PlacementRequest request;
  request.local_size = ranks;
  request.services = services;
  request.used_by_ranks = used;
  return request;
}

TEST(Placement, TakesTheLastCoresThatRanksLeaveFree) {
  const auto places = place_services(request_of(2, 1, mask_of({0, 1})), four_cores());
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].cpu, 3);
  EXPECT_EQ(places[0].core_share, CoreShare::own);
}

TEST(Placement, HardwareThreadOfARankMakesTheCoreBusy) {
  EXPECT_EQ(free_cpus(four_cores(), mask_of({0, 5, 7})), (std::vector<int>{2}));
  EXPECT_FALSE(core_is_free(four_cores(), 3, mask_of({7})));
}

TEST(Placement, NoFreeCoreMeansNotPinned) {
  CpuMask all;
  all.set();
  const auto places = place_services(request_of(4, 0, all), four_cores());
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].cpu, -1);
  EXPECT_EQ(places[0].core_share, CoreShare::none);
}

TEST(Placement, FindsAnIdleCoreIfThereAreMoreCoresThanRanks) {
  CpuMask all;
  all.set();
  PlacementRequest request = request_of(7, 1, all);
  request.usable_cpus = 8;
  EXPECT_EQ(place_services(request, four_cores())[0].core_share, CoreShare::idle);
  request.local_size = 8;
  EXPECT_EQ(place_services(request, four_cores())[0].core_share, CoreShare::none);
}

TEST(Placement, ServiceProcessesWithoutACoreAreNotBound) {
  const auto places = place_services(request_of(4, 3, mask_of({0, 1})), four_cores());
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0].core_share, CoreShare::own);
  EXPECT_EQ(places[1].core_share, CoreShare::own);
  EXPECT_EQ(places[2].cpu, -1);
  EXPECT_EQ(places[2].core_share, CoreShare::none);
}

TEST(Placement, OneServiceProcessForEightRanksIfCoresAreFree) {
  EXPECT_EQ(place_services(request_of(8, 0, mask_of({0, 1})), four_cores()).size(), 1U);
  EXPECT_EQ(place_services(request_of(9, 0, mask_of({0, 1})), four_cores()).size(), 2U);
  EXPECT_EQ(place_services(request_of(64, 0, mask_of({0, 1})), four_cores()).size(), 2U) << "no more cores are free";
}

TEST(Placement, NeverMoreServiceProcessesThanRanks) {
  EXPECT_EQ(place_services(request_of(2, 8, mask_of({0})), four_cores()).size(), 2U);
}

TEST(Placement, NamedCpusAreTakenAndSharedWhenTooFew) {
  PlacementRequest request = request_of(4, 2, mask_of({0, 1}));
  request.service_cpus = {3};
  const auto places = place_services(request, four_cores());
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].cpu, 3);
  EXPECT_EQ(places[1].cpu, 3);
  EXPECT_EQ(places[0].core_share, CoreShare::shared);
  EXPECT_EQ(places[1].core_share, CoreShare::shared);
}

TEST(Placement, CpuNamedTwiceIsShared) {
  PlacementRequest request = request_of(4, 3, mask_of({0, 1}));
  request.service_cpus = {3, 3, 2};
  const auto places = place_services(request, four_cores());
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0].core_share, CoreShare::shared);
  EXPECT_EQ(places[1].core_share, CoreShare::shared);
  EXPECT_EQ(places[2].core_share, CoreShare::own);
}

TEST(CpuList, RangesAndNumbers) {
  EXPECT_EQ(parse_cpu_list("7").value(), (std::vector<int>{7}));
  EXPECT_EQ(parse_cpu_list("6,2-4").value(), (std::vector<int>{6, 2, 3, 4}));
  EXPECT_TRUE(parse_cpu_list("").value().empty());
  for (const char* bad : {"x", "1-", "-1", "4-2", "1,,2", "99999", "1 2"}) EXPECT_FALSE(parse_cpu_list(bad)) << bad;
}

TEST(Reach, Lists) {
  EXPECT_EQ(parse_reach_list("mapped,cma,copier,xpmem,rdma,alias").value(), kReachAll);
  EXPECT_EQ(parse_reach_list("cma").value(), kReachCma);
  EXPECT_EQ(parse_reach_list("none").value(), 0U);
  EXPECT_FALSE(parse_reach_list("telepathy"));
}

TEST(Topology, EveryUsableCpuHasOneCore) {
  const auto topology = read_topology();
  ASSERT_TRUE(topology) << topology.error();
  std::set<int> cpus;
  std::size_t threads = 0;
  for (const Core& core : topology.value().cores) {
    cpus.insert(core.cpus.begin(), core.cpus.end());
    threads += core.cpus.size();
  }
  EXPECT_EQ(cpus.size(), threads) << "a cpu is of two cores";
  std::set<int> usable;
  for (const Core& core : within_affinity(topology.value()).cores) usable.insert(core.cpus.begin(), core.cpus.end());
  const std::vector<int> expected = usable_cpus();
  EXPECT_EQ(usable, std::set<int>(expected.begin(), expected.end()));
}

TEST(Info, DescribesThisMachine) {
  const std::string info = describe_machine();
  const auto says = [&info](const std::string& text) { return info.find(text) != std::string::npos; };
  EXPECT_TRUE(says("\"protocol\": " + std::to_string(kProtocolVersion))) << info;
  EXPECT_TRUE(says(why_no_cross_memory().empty() ? "\"cma\": true" : "\"cma\": false")) << info;
  EXPECT_TRUE(says("\"count\": " + std::to_string(read_topology().value().cores.size()))) << info;
}

}  // namespace
}  // namespace outrigger::service
