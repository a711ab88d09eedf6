// Cores that processes share, against what can be worked out by hand.
#include "sim/model/processor.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/timing/native_side.hpp"
#include "sim/timing/offloaded_side.hpp"
#include "sim/timing/program.hpp"

namespace outrigger::sim::model {
namespace {

using fabric::sim::VirtualTime;

class ProcessorTest : public ::testing::Test {
 protected:
  void work(Processor& processor, std::uint64_t at_ns, std::uint64_t work_ns, std::string name) {
    time.at(at_ns, [this, &processor, work_ns, name] {
      processor.run(process(name), work_ns,
                    [this, name] { ends.push_back(name + "@" + std::to_string(time.now_ns())); });
    });
  }
  void run() {
    while (time.step()) {
    }
  }

  // Of one letter.
  static ProcessId process(const std::string& name) { return ProcessId{static_cast<std::uint32_t>(name[0])}; }

  VirtualTime time;
  std::vector<std::string> ends;
};

TEST_F(ProcessorTest, OneCoreIsSharedEvenly) {
  Processor core(time, 1, 0);
  work(core, 0, 1000, "a");
  work(core, 0, 300, "b");
  work(core, 200, 100, "c");
  run();
  // a and b have 100 each at 200; then each has a third: c ends at 500, b 100 later by halves of what it lacks.
  EXPECT_EQ(ends, (std::vector<std::string>{"c@500", "b@700", "a@1400"}));
}

// c shares a's core; when b has done its work its core has nobody, but c is where it is.
TEST_F(ProcessorTest, NobodyHasMoreThanACore) {
  Processor cores(time, 2, 0);
  for (const char* name : {"a", "b", "c"}) work(cores, 0, 600, name);
  work(cores, 2000, 50, "d");
  run();
  EXPECT_EQ(ends, (std::vector<std::string>{"b@600", "a@1200", "c@1200", "d@2050"}));
}

// As a rank that copies for its service process while it waits. What waits goes along when it moves.
TEST_F(ProcessorTest, WhoWaitsMayWorkMeanwhile) {
  for (const bool spins : {true, false}) {
    ends.clear();
    Processor cores(time, 2, 0);
    const std::uint64_t begin_ns = time.now_ns();
    const auto wait = [&](bool more) { spins ? cores.spin(process("a"), more) : cores.poll(process("a"), more); };
    time.at(begin_ns, [&] { wait(true); });
    work(cores, begin_ns, 1000, "b");
    work(cores, begin_ns + 100, 300, "a");
    time.at(begin_ns + 500, [&] { wait(false); });
    work(cores, begin_ns + 1100, 50, "c");
    work(cores, begin_ns + 1100, 50, "d");
    run();
    const auto at = [&](const char* name, std::uint64_t ns) { return name + std::to_string(begin_ns + ns); };
    EXPECT_EQ(ends, (std::vector<std::string>{at("a@", 400), at("b@", 1000), at("c@", 1150), at("d@", 1150)}));
  }
}

TEST_F(ProcessorTest, WhoTurnsToWorkTakesACoreThatHasNobody) {
  Processor cores(time, 2, 0);
  for (const char* name : {"a", "b", "c"}) work(cores, 0, 600, name);
  work(cores, 1200, 600, "a");
  work(cores, 1300, 600, "c");
  run();
  EXPECT_EQ(ends, (std::vector<std::string>{"b@600", "a@1200", "c@1200", "a@1800", "c@1900"}));
}

TEST_F(ProcessorTest, WhoPollsIsSomebody) {
  Processor cores(time, 2, 0);
  cores.poll(process("a"), true);
  cores.poll(process("b"), true);
  for (const char* name : {"c", "e"}) work(cores, 0, 600, name);  // at home on core 0 and 1
  work(cores, 600, 600, "c");
  work(cores, 600, 600, "a");
  run();
  EXPECT_EQ(ends, (std::vector<std::string>{"c@600", "e@600", "c@1800", "a@1800"}));
}

// Three on two cores: in the long run each has two thirds of one.
TEST_F(ProcessorTest, CoresAreSharedEvenlyInTheLongRun) {
  Processor cores(time, 2, 0);
  for (const char* name : {"a", "b", "c"}) work(cores, 0, 400'000'000, name);
  run();
  EXPECT_NEAR(static_cast<double>(time.now_ns()), 600e6, 6e6);
}

TEST_F(ProcessorTest, WithACoreEachNobodyWaits) {
  Processor cores(time, 0, 70);
  for (const char* name : {"a", "b"}) work(cores, 10, 600, name);
  run();
  EXPECT_EQ(ends, (std::vector<std::string>{"a@610", "b@610"}));
  EXPECT_EQ(cores.switch_to(process("a")), 0U);
}

TEST_F(ProcessorTest, WhoSpinsHasAPart) {
  Processor core(time, 1, 0);
  core.spin(process("s"), true);
  work(core, 0, 100, "a");
  time.at(100, [&core] { core.spin(process("s"), false); });
  run();
  EXPECT_EQ(ends, (std::vector<std::string>{"a@150"}));  // half of it at 100
}

TEST_F(ProcessorTest, ASwitchCostsWhoComesFromAnother) {
  Processor core(time, 1, 30);
  const ProcessId one{1};
  const ProcessId other{2};
  core.poll(one, true);
  EXPECT_EQ(core.switch_to(one), 30U);
  EXPECT_EQ(core.switch_to(one), 0U);
  core.poll(one, false);
  EXPECT_EQ(core.switch_to(other), 0U);  // the core is free
  core.run(other, 100, [] {});
  EXPECT_EQ(core.switch_to(one), 30U);
}

TEST_F(ProcessorTest, WhoPollsHasATurnBefore) {
  Processor core(time, 1, 30);
  const ProcessId one{1};
  const ProcessId other{2};
  for (int i = 0; i < 7; ++i) core.poll(one, true);
  EXPECT_EQ(core.switch_to(one), 4 * 30U);  // half of seven, and its own
  EXPECT_EQ(core.switch_to(one), 0U);
  for (int i = 0; i < 6; ++i) core.poll(one, false);
  EXPECT_EQ(core.switch_to(other), 30U);
}

TEST_F(ProcessorTest, ABurstsStepsComeWhenTheCoreIsSoFar) {
  Processor core(time, 1, 0);
  work(core, 0, 1000, "other");
  CpuBurst burst(core, process("burst"));
  const auto end = [this](const char* name) {
    return [this, name] { ends.push_back(name + std::string("@") + std::to_string(time.now_ns())); };
  };
  burst.begin();
  burst.spend(100);
  burst.then(end("a"));
  burst.then(end("b"));
  burst.spend(50);
  burst.then(end("c"));
  EXPECT_EQ(burst.spent_ns(), 150U);
  run();
  EXPECT_EQ(ends, (std::vector<std::string>{"a@200", "b@200", "c@300", "other@1150"}));
}

// Nothing takes time but what a test says.
Cluster nothing_costs() {
  Cluster cluster;
  cluster.nodes = 4;
  cluster.host.memory_bytes_per_s = cluster.host.copy_bytes_per_s = cluster.host.reduce_bytes_per_s = 1e18;
  cluster.host.socket_bytes_per_s = cluster.network.link_bytes_per_s = 1e18;
  cluster.service.copy_bytes_per_s = cluster.service.reduce_bytes_per_s = 1e18;
  cluster.network.wire = WireKind::processor;
  cluster.network.chunk_bytes = 10'000;
  return cluster;
}

constexpr std::uint64_t kBytes = 1'000'000;

std::uint64_t total_ns(const Cluster& cluster, const JobShape& shape, std::uint64_t work_ns, bool offloaded) {
  Machine machine(cluster, shape);
  const timing::Rounds rounds{1, work_ns, 1, 100'000'000};
  const baselines::Baseline* const linear = baselines::baseline_named(Collective::ialltoall, "linear");
  const timing::Call call{Collective::ialltoall, Algorithm::ring_pull, linear, kBytes};
  const timing::Workload workload = timing::one_call(machine.places, call);
  timing::NativeSide native(machine, workload, false);
  timing::OffloadedSide services(machine, workload);
  timing::Side& side = offloaded ? static_cast<timing::Side&>(services) : native;
  const Result<timing::RoundTimes> times = timing::run_rounds(machine, side, rounds);
  EXPECT_TRUE(times.ok()) << times.error();
  return times ? times.value().total_ns[0] : 0;
}

// Four hosts of a core each, on two cores. Each sends three blocks of a millisecond and takes as many.
TEST(SharedCores, HostsOfOneMachineCarryInTurn) {
  Cluster cluster = nothing_costs();
  cluster.host.socket_bytes_per_s = 1e9;
  const JobShape four{4, 1, 1, Mapping::contiguous};
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 0, false)), 6e6, 6e4);
  cluster.host.processors = 2;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 0, false)), 12e6, 12e4);
  cluster.service.own_core = false;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 0, true)), 12e6, 12e4);
  // Two hosts have a core each.
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, JobShape{2, 1, 1, Mapping::contiguous}, 0, true)), 2e6, 4e4);
}

// Work of 20 ms, by all of them at a time, and 12 ms of carrying on the same cores.
TEST(SharedCores, ServicesTakeFromTheWork) {
  Cluster cluster = nothing_costs();
  cluster.host.socket_bytes_per_s = 1e9;
  cluster.host.processors = 2;
  cluster.service.own_core = false;
  const JobShape four{4, 1, 1, Mapping::contiguous};
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 20'000'000, true)), 32e6, 3e5);
  cluster.service.own_core = true;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 20'000'000, true)), 20e6, 3e5);
  cluster.service.processors = 1;  // which all four have: 24 ms
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 20'000'000, true)), 24e6, 3e5);
}

// Four ranks on one core, each of which copies three blocks of a millisecond.
TEST(SharedCores, RanksOfANodeCopyInTurn) {
  Cluster cluster = nothing_costs();
  cluster.host.copy_bytes_per_s = 1e9;
  cluster.host.waiting = Waiting::yields;
  const JobShape crowded{1, 4, 1, Mapping::contiguous};
  // And their own block.
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, crowded, 0, false)), 16e6, 16e4);
  cluster.host.cores = 4;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, crowded, 0, false)), 4e6, 4e4);
}

// Two ranks on two cores, a service process without one. A block is copied in a millisecond; the own one is while
// posting.
TEST(SharedCores, RanksCopyAloneWhenTheyWait) {
  Cluster cluster = nothing_costs();
  cluster.host.cores = 2;
  cluster.host.copy_bytes_per_s = cluster.service.copy_bytes_per_s = 1e9;
  cluster.service.own_core = false;
  cluster.service.ranks_copy = true;
  const JobShape two{1, 2, 1, Mapping::contiguous};
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, two, 0, true)), 2e6, 2e4);
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, two, 500'000, true)), 2.5e6, 3e4);
  // After 2 ms the service process has no more patience, and copies each block twice, on cores that both ranks need.
  const auto relayed_ns = static_cast<double>(total_ns(cluster, two, 10'000'000, true));
  EXPECT_GT(relayed_ns, 13e6);
  EXPECT_LT(relayed_ns, 15e6);
  // A copy of its own takes it half of that, but from the beginning.
  cluster.service.ranks_copy = false;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, two, 0, true)), 3e6, 3e4);
}

// One rank of two computes for ten times as long as the other, which waits for it in MPI.
TEST(SharedCores, WhoSpinsKeepsTheCoreFromWhoComputes) {
  Cluster cluster = nothing_costs();
  cluster.network.wire = WireKind::memory;
  cluster.noise.work = 1;  // so that the two differ
  cluster.host.waiting = Waiting::yields;
  const JobShape two{1, 2, 1, Mapping::contiguous};
  const auto yields_ns = static_cast<double>(total_ns(cluster, two, 10'000'000, false));
  cluster.host.waiting = Waiting::spins;
  const auto spins_ns = static_cast<double>(total_ns(cluster, two, 10'000'000, false));
  cluster.host.cores = 2;
  const auto own_core_ns = static_cast<double>(total_ns(cluster, two, 10'000'000, false));
  // The work is what lasts so long on half a core, of which the one who spins leaves half to the end.
  EXPECT_NEAR(spins_ns, own_core_ns, own_core_ns * 0.01);
  EXPECT_LT(yields_ns, spins_ns * 0.95);
}

}  // namespace
}  // namespace outrigger::sim::model
