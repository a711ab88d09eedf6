// Shared cores compared with times computed by hand.
#include "sim/model/processor.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/timing/native_side.hpp"
#include "sim/timing/offloaded_side.hpp"
#include "sim/timing/program.hpp"

namespace outrigger::sim::model {
namespace {

using fabric::sim::VirtualTime;

// Times in microseconds: idle processes release a core after a nanosecond.
class ProcessorTest : public ::testing::Test {
 protected:
  void work(Processor& processor, std::uint64_t at_us, std::uint64_t work_us, const std::string& name) {
    time.at(at_us * 1000,
            [this, &processor, work_us, name] { processor.run(process(name), work_us * 1000, ended(name)); });
  }
  std::function<void()> ended(const std::string& name) {
    return [this, name] { ends.push_back(name + "@" + std::to_string(time.now_ns() / 1000)); };
  }
  void run() {
    while (time.step()) {
    }
  }
  using Ends = std::vector<std::string>;

  // `name` is one letter.
  static ProcessId process(const std::string& name) { return ProcessId{static_cast<std::uint32_t>(name[0])}; }

  VirtualTime time;
  Ends ends;
};

TEST_F(ProcessorTest, ProcessKeepsTheCoreUntilItIsIdle) {
  Processor core(time, 1, 0);
  work(core, 0, 1000, "a");
  work(core, 0, 300, "b");
  work(core, 200, 100, "c");
  run();
  EXPECT_EQ(ends, (Ends{"a@1000", "b@1300", "c@1400"}));
}

TEST_F(ProcessorTest, ProcessKeepsTheCoreForASliceAtMost) {
  Processor core(time, 1, 0);
  work(core, 0, 3000, "a");
  work(core, 0, 3000, "b");
  run();
  // 1400 each, twice, and the rest
  EXPECT_EQ(ends, (Ends{"a@5800", "b@6000"}));
}

TEST_F(ProcessorTest, NewProcessGetsTheCoreAfterTheSlice) {
  Processor core(time, 1, 0);
  work(core, 0, 9000, "a");
  work(core, 1000, 50, "b");
  work(core, 3000, 50, "b");
  run();
  EXPECT_EQ(ends, (Ends{"b@1450", "b@3050", "a@9100"}));
}

// Like service processes; two of them work from 400 to 700.
TEST_F(ProcessorTest, ShortSlicesShareTheCore) {
  Processor core(time, 1, 0);
  for (const char* name : {"s", "t"}) core.has_short_slices(process(name));
  work(core, 0, 900, "a");
  work(core, 0, 300, "b");
  work(core, 200, 200, "s");
  work(core, 400, 200, "t");
  run();
  // a has 200 alone, 100 of a half, 100 of a third with s, then 100 of a half with t: 500 at 900.
  EXPECT_EQ(ends, (Ends{"s@700", "t@900", "a@1300", "b@1600"}));
}

TEST_F(ProcessorTest, ShortSlicesNeedASwitchOnABusyCore) {
  Processor core(time, 1, 10'000);
  core.has_short_slices(process("s"));
  work(core, 0, 50, "s");
  work(core, 100, 100, "a");
  work(core, 100, 20, "s");
  run();
  EXPECT_EQ(ends, (Ends{"s@50", "s@160", "a@230"}));
}

TEST_F(ProcessorTest, ProcessHasAtMostOneCore) {
  Processor cores(time, 2, 0);
  for (const char* name : {"a", "b", "c"}) work(cores, 0, 600, name);
  work(cores, 2000, 50, "d");
  run();
  EXPECT_EQ(ends, (Ends{"b@600", "a@600", "c@1200", "d@2050"}));
}

// Like a rank that copies for its service process while it waits.
TEST_F(ProcessorTest, WaitingProcessMayWork) {
  for (const bool spins : {true, false}) {
    ends.clear();
    Processor cores(time, 2, 0);
    const std::uint64_t begin_us = time.now_ns() / 1000 + 1;
    const auto wait = [&](bool more) { spins ? cores.spin(process("a"), more) : cores.poll(process("a"), more); };
    time.at(begin_us * 1000, [&] { wait(true); });
    work(cores, begin_us, 1000, "b");
    work(cores, begin_us + 100, 300, "a");
    time.at((begin_us + 500) * 1000, [&] { wait(false); });
    work(cores, begin_us + 1100, 50, "c");
    work(cores, begin_us + 1100, 50, "d");
    run();
    const auto at = [&](const char* name, std::uint64_t us) { return name + std::to_string(begin_us + us); };
    EXPECT_EQ(ends, (Ends{at("a@", 400), at("b@", 1000), at("c@", 1150), at("d@", 1150)}));
  }
}

TEST_F(ProcessorTest, NewWorkTakesAnEmptyCore) {
  Processor cores(time, 2, 0);
  for (const char* name : {"a", "b", "c"}) work(cores, 0, 600, name);
  work(cores, 1100, 600, "a");
  work(cores, 1300, 600, "c");
  run();
  EXPECT_EQ(ends, (Ends{"b@600", "a@600", "c@1200", "a@1700", "c@1900"}));
}

TEST_F(ProcessorTest, PollingProcessOccupiesItsCore) {
  Processor cores(time, 2, 0);
  cores.poll(process("a"), true);
  cores.poll(process("b"), true);
  for (const char* name : {"c", "e"}) work(cores, 0, 600, name);  // at home on cores 0 and 1
  work(cores, 700, 600, "c");
  work(cores, 700, 600, "a");  // which polls
  run();
  EXPECT_EQ(ends, (Ends{"c@600", "e@600", "a@1300", "c@1900"}));
}

// Three on two cores: in the long run each gets two thirds of a core.
TEST_F(ProcessorTest, CoresAreSharedEvenlyInTheLongRun) {
  Processor cores(time, 2, 0);
  for (const char* name : {"a", "b", "c"}) work(cores, 0, 400'000, name);
  run();
  EXPECT_NEAR(static_cast<double>(time.now_ns()), 600e6, 6e6);
}

TEST_F(ProcessorTest, NoProcessWaitsWithACoreEach) {
  Processor cores(time, 0, 70'000);
  for (const char* name : {"a", "b"}) work(cores, 10, 600, name);
  run();
  EXPECT_EQ(ends, (Ends{"a@610", "b@610"}));
}

TEST_F(ProcessorTest, SpinningProcessKeepsTheCoreForItsSlice) {
  Processor core(time, 1, 0);
  core.spin(process("s"), true);
  work(core, 0, 100, "a");
  work(core, 2000, 100, "a");
  time.at(2'100'000, [&core] { core.spin(process("s"), false); });
  run();
  EXPECT_EQ(ends, (Ends{"a@1500", "a@2200"}));
}

TEST_F(ProcessorTest, ChangingProcessesCostsASwitch) {
  Processor core(time, 1, 30'000);
  work(core, 0, 100, "a");
  work(core, 0, 200, "b");
  work(core, 1000, 50, "a");  // no other process is there
  run();
  EXPECT_EQ(ends, (Ends{"a@100", "b@330", "a@1050"}));
}

// An idle process polls, and lets the next one take its turn.
TEST_F(ProcessorTest, PollingProcessTakesTurns) {
  for (const auto& [name, end] : {std::pair{"a", "a@1000"}, {"b", "b@1020"}, {"c", "c@1050"}}) {
    ends.clear();
    VirtualTime fresh;
    std::swap(time, fresh);
    Processor core(time, 1, 30'000);
    for (const char* each : {"a", "b", "c"}) core.poll(process(each), true);
    work(core, 1000, 0, name);  // a polls from 990 on, as every 90
    run();
    EXPECT_EQ(ends, Ends{end});
  }
}

TEST_F(ProcessorTest, YieldingProcessComesAfterTheOthers) {
  Processor core(time, 1, 0);
  for (const char* name : {"a", "b"}) work(core, 0, 100, name);
  core.yield_and_run(process("a"), 50'000, ended("a"));  // before its other work
  core.yield_and_run(process("c"), 10'000, ended("c"));
  time.at(500'000, [&] { core.yield_and_run(process("d"), 10'000, ended("d")); });  // to no other process
  run();
  EXPECT_EQ(ends, (Ends{"a@50", "a@150", "c@160", "b@260", "d@510"}));
}

TEST_F(ProcessorTest, BurstStepsComeAtTheirCoreTime) {
  Processor core(time, 1, 0);
  CpuBurst burst(core, process("burst"));
  work(core, 0, 1000, "other");
  burst.begin();
  burst.spend(100'000);
  burst.then(ended("a"));
  burst.then(ended("b"));
  burst.spend(50'000);
  burst.then(ended("c"));
  EXPECT_EQ(burst.spent_ns(), 150'000U);
  run();
  EXPECT_EQ(ends, (Ends{"a@100", "b@100", "c@150", "other@1150"}));
}

// No costs except those that a test sets.
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

// Four hosts of one core each, on two cores. Each sends and receives three blocks of a millisecond.
TEST(SharedCores, HostsOfOneMachineCarryRoundRobin) {
  Cluster cluster = nothing_costs();
  cluster.host.socket_bytes_per_s = 1e9;
  const JobShape four{4, 1, 1, Mapping::contiguous};
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 0, false)), 6e6, 6e4);
  cluster.host.processors = 2;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 0, false)), 12e6, 12e4);
  cluster.service.own_core = false;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 0, true)), 12e6, 12e4);
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, JobShape{2, 1, 1, Mapping::contiguous}, 0, true)), 2e6, 4e4);
}

// Work of 20 ms by all at a time, and 12 ms of carrying on the same cores.
TEST(SharedCores, ServicesTakeFromTheWork) {
  Cluster cluster = nothing_costs();
  cluster.host.socket_bytes_per_s = 1e9;
  cluster.host.processors = 2;
  cluster.service.own_core = false;
  const JobShape four{4, 1, 1, Mapping::contiguous};
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 20'000'000, true)), 32e6, 3e5);
  cluster.service.own_core = true;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 20'000'000, true)), 20e6, 3e5);
  cluster.service.processors = 1;  // shared by all four: 24 ms
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, four, 20'000'000, true)), 24e6, 3e5);
}

// Four ranks on one core; each copies three blocks of a millisecond.
TEST(SharedCores, RanksOfANodeCopyRoundRobin) {
  Cluster cluster = nothing_costs();
  cluster.host.copy_bytes_per_s = 1e9;
  cluster.host.waiting = Waiting::yields;
  const JobShape crowded{1, 4, 1, Mapping::contiguous};
  // And its own block.
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, crowded, 0, false)), 16e6, 16e4);
  cluster.host.cores = 4;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, crowded, 0, false)), 4e6, 4e4);
}

// Two ranks on two cores, a service process without one. Copying a block takes a millisecond; the own block is copied
// while posting.
TEST(SharedCores, OnlyWaitingRanksCopy) {
  Cluster cluster = nothing_costs();
  cluster.host.cores = 2;
  cluster.host.copy_bytes_per_s = cluster.service.copy_bytes_per_s = 1e9;
  cluster.service.own_core = false;
  cluster.service.ranks_copy = true;
  const JobShape two{1, 2, 1, Mapping::contiguous};
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, two, 0, true)), 2e6, 2e4);
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, two, 500'000, true)), 2.5e6, 3e4);
  // After 2 ms the service process stops waiting, and copies each block twice, on cores that both ranks need.
  const auto relayed_ns = static_cast<double>(total_ns(cluster, two, 10'000'000, true));
  EXPECT_GT(relayed_ns, 13e6);
  EXPECT_LT(relayed_ns, 15e6);
  // Its own copies take half of that, but from the beginning.
  cluster.service.ranks_copy = false;
  EXPECT_NEAR(static_cast<double>(total_ns(cluster, two, 0, true)), 3e6, 3e4);
}

// One rank of two computes ten times as long as the other, which waits for it in MPI.
TEST(SharedCores, SpinningRankSlowsAComputingOne) {
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
  // The work takes this long on half a core; the spinning rank leaves it half the core to the end, by slices of 1.4 ms.
  EXPECT_NEAR(spins_ns, own_core_ns, 1.4e6);
  EXPECT_LT(yields_ns, spins_ns * 0.95);
}

}  // namespace
}  // namespace outrigger::sim::model
