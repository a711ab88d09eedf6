// Whole experiments: times of service processes and native MPI on a modelled cluster, and their properties.
#include <gtest/gtest.h>

#include <string>

#include "sim/timing/experiment.hpp"
#include "sim/timing/offloaded_side.hpp"
#include "sim/timing/one_node.hpp"
#include "sim/timing/program.hpp"

namespace outrigger::sim::timing {
namespace {

model::Cluster cluster_named(const std::string& name) {
  const Result<model::Cluster> cluster = model::read_cluster(OUTRIGGER_CLUSTERS "/" + name + ".toml");
  EXPECT_TRUE(cluster.ok()) << cluster.error();
  return cluster ? cluster.value() : model::Cluster();
}

ExperimentOptions options_for(const std::string& pattern, std::uint32_t nodes, std::uint32_t ranks_per_node,
                              std::uint32_t services) {
  ExperimentOptions options;
  options.pattern = parse_pattern(pattern).value();
  options.shape = JobShape{nodes, ranks_per_node, services, Mapping::contiguous};
  return options;
}

ExperimentResult run(const model::Cluster& cluster, const ExperimentOptions& options) {
  const Result<ExperimentResult> result = run_experiment(cluster, options);
  EXPECT_TRUE(result.ok()) << result.error();
  return result ? result.value() : ExperimentResult();
}

double part(std::uint64_t of_ns, std::uint64_t whole_ns) {
  return static_cast<double>(of_ns) / static_cast<double>(whole_ns);
}

TEST(Timing, ServiceProcessesOverlapComputation) {
  const model::Cluster cluster = cluster_named("graham2024-bluefield3");
  ExperimentOptions options = options_for("ialltoall:256KiB", 4, 4, 2);
  const ExperimentResult result = run(cluster, options);
  EXPECT_EQ(result.native.algorithm, "pairwise");
  EXPECT_EQ(result.offloaded.algorithm, "ring_pull");
  EXPECT_GT(part(result.native.exposed_ns, result.native.pure_ns), 0.8);
  // Blocks within a node go through PCIe, while native copies them: slightly longer than the computation.
  EXPECT_LT(part(result.offloaded.exposed_ns, result.native.pure_ns), 0.2);
  EXPECT_LT(result.offloaded.in_mpi_ns, result.native.in_mpi_ns / 4);
  options.native_threads = true;  // on the service processes' cores
  EXPECT_LT(part(run(cluster, options).native.exposed_ns, result.native.pure_ns), 0.3);
}

// As in outriggerd, where it depends on who carries the bytes between nodes.
TEST(Timing, TheAlgorithmOfAShortAllreduceDependsOnTheWire) {
  model::Cluster cluster = cluster_named("box");
  const auto chosen = [&](const char* pattern) {
    return run(cluster, options_for(pattern, 4, 1, 1)).offloaded.algorithm;
  };
  EXPECT_EQ(chosen("iallreduce:32KiB"), "rooted");
  EXPECT_EQ(chosen("iallreduce:36KiB"), "sliced_pull");
  cluster.network.wire = model::WireKind::memory;
  EXPECT_EQ(chosen("iallreduce:16KiB"), "rooted");
  EXPECT_EQ(chosen("iallreduce:32KiB"), "sliced_pull");
}

// Without copies by ranks: each node receives 12 blocks for each of its 4 ranks through its link, or its PCIe if that
// is slower.
TEST(Timing, LargeAlltoallSaturatesTheSlowestPort) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  cluster.service.ranks_copy = false;
  const ExperimentResult result = run(cluster, options_for("ialltoall:4MiB", 4, 4, 4));
  // Blocks within the node turn round in the card and use PCIe as well.
  const double least_ns = 15.0 * 4 * (4U << 20U) / cluster.pcie.bytes_per_s * 1e9;
  EXPECT_GT(part(result.offloaded.pure_ns, 1) / least_ns, 1.0);
  EXPECT_LT(part(result.offloaded.pure_ns, 1) / least_ns, 1.1);
}

// With service processes on a DPU, ranks that wait copy what stays on their host.
TEST(Timing, WaitingRanksCopyForADpu) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  for (const std::uint32_t ranks : {8U, 16U, 32U}) {
    ExperimentOptions options = options_for("ialltoall:512KiB", 1, ranks, 4);
    options.rounds = 1;
    cluster.service.ranks_copy = true;
    const ExperimentResult copied = run(cluster, options);
    EXPECT_LT(part(copied.offloaded.pure_ns, copied.native.pure_ns), 1.45) << ranks;
    cluster.service.ranks_copy = false;
    const ExperimentResult by_card = run(cluster, options);
    EXPECT_GT(part(by_card.offloaded.pure_ns, by_card.native.pure_ns), 2.9) << ranks;
    // And still beside computation.
    EXPECT_LT(part(copied.offloaded.total_ns, by_card.offloaded.total_ns), 1.01) << ranks;
  }
}

// The card moves all blocks of ranks that compute, as if they never copied.
TEST(Timing, ComputingRanksAreNotWaitedFor) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  ExperimentOptions options = options_for("ialltoall:512KiB", 2, 8, 2);
  options.work = parse_work_rule("60 ms").value();
  const ExperimentResult copies = run(cluster, options);
  cluster.service.ranks_copy = false;
  const ExperimentResult by_card = run(cluster, options);
  EXPECT_LT(part(copies.offloaded.exposed_ns, copies.offloaded.pure_ns), 0.04);  // its own block
  EXPECT_NEAR(part(copies.offloaded.total_ns, by_card.offloaded.total_ns), 1, 0.001);
}

// Beside computation ranks' copiers on spare cores shorten what is left; while ranks wait, they change little.
TEST(Timing, SpareCoresCopyForADpuWhileRanksCompute) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  cluster.host.switch_ns = 2000;
  struct Row {
    std::uint32_t nodes, ranks, cores;
    double most;  // of the exposed time without them
  };
  for (const Row& row : {Row{1, 16, 4, 0.8}, Row{4, 8, 1, 0.5}, Row{4, 32, 1, 0.6}}) {
    SCOPED_TRACE(row.nodes * 100 + row.ranks);
    ExperimentOptions options = options_for("ialltoall:512KiB", row.nodes, row.ranks, 4);
    options.rounds = 1;
    cluster.service.copy_cores = 0;
    const ExperimentResult without = run(cluster, options);
    cluster.service.copy_cores = row.cores;
    const ExperimentResult with = run(cluster, options);
    EXPECT_LT(part(with.offloaded.exposed_ns, without.offloaded.exposed_ns), row.most);
    EXPECT_LT(part(with.offloaded.pure_ns, without.offloaded.pure_ns), 1.03);
  }
}

// Small blocks cost less by the card than a job costs.
TEST(Timing, RanksDoNotCopySmallBlocksForADpu) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  const ExperimentOptions options = options_for("ialltoall:8KiB", 2, 8, 2);
  const ExperimentResult copies = run(cluster, options);
  cluster.service.ranks_copy = false;
  EXPECT_EQ(copies.offloaded.pure_ns, run(cluster, options).offloaded.pure_ns);
}

// A rank that ends its wait leaves jobs behind: they go back, and the operation ends. Many small steps with waits of
// different lengths reach that.
TEST(Timing, JobsOfRanksThatStopWaitingAreTakenBack) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  cluster.noise.work = 0.5;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const char* pattern : {"ialltoall:64KiB", "iallgather:64KiB", "ibcast:1MiB"}) {
      ExperimentOptions options = options_for(pattern, 2, 6, 2);
      options.seed = seed;
      EXPECT_GT(run(cluster, options).offloaded.total_ns, 0U);
    }
  }
}

TEST(Timing, EveryModelledCollectiveAndAlgorithmEnds) {
  for (const char* name : {"graham2024-bluefield3", "thor-bluefield2", "sapphire-rapids-host-core", "box"}) {
    const model::Cluster cluster = cluster_named(name);
    const std::uint32_t per_node = cluster.host.cores < 2 ? 1 : 2;
    for (const Collective collective :
         {Collective::ialltoall, Collective::iallgather, Collective::ibcast, Collective::iallreduce}) {
      for (const Algorithm algorithm : kCollectives[index_of(collective)].algorithms) {
        ExperimentOptions options = options_for(std::string(name_of(collective)) + ":200kB", 4, per_node, 1);
        options.offloaded = name_of(algorithm);
        options.rounds = 1;
        const ExperimentResult result = run(cluster, options);
        EXPECT_GT(result.offloaded.pure_ns, 100'000U / 50) << name << " " << name_of(collective);
        EXPECT_GE(result.offloaded.total_ns, result.native.work_ns);
      }
    }
  }
}

TEST(Timing, TheSeedDecidesEverything) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  cluster.noise.work = 0.05;
  ExperimentOptions options = options_for("iallgather:32KiB", 4, 4, 2);
  const ExperimentResult first = run(cluster, options);
  const ExperimentResult again = run(cluster, options);
  EXPECT_EQ(first.offloaded.total_ns, again.offloaded.total_ns);
  EXPECT_EQ(first.native.total_ns, again.native.total_ns);
  options.seed = 2;
  const ExperimentResult other = run(cluster, options);
  EXPECT_NE(first.offloaded.total_ns, other.offloaded.total_ns);
}

TEST(Timing, WorkIsNativesOrTheOwnPureLatencyOrGiven) {
  const model::Cluster cluster = cluster_named("thor-bluefield2");
  ExperimentOptions options = options_for("ialltoall:64KiB", 4, 4, 1);
  const ExperimentResult equal = run(cluster, options);
  EXPECT_EQ(equal.native.work_ns, equal.native.pure_ns);
  EXPECT_EQ(equal.offloaded.work_ns, equal.native.pure_ns);
  ASSERT_NE(equal.native.pure_ns, equal.offloaded.pure_ns);
  options.work = parse_work_rule("own").value();
  const ExperimentResult own = run(cluster, options);
  EXPECT_EQ(own.native.total_ns, equal.native.total_ns);
  EXPECT_EQ(own.offloaded.work_ns, own.offloaded.pure_ns);
  options.work = parse_work_rule("300 us").value();
  const ExperimentResult fixed = run(cluster, options);
  EXPECT_EQ(fixed.native.work_ns, 300'000U);
  EXPECT_EQ(fixed.offloaded.work_ns, 300'000U);
  EXPECT_GE(fixed.offloaded.total_ns, 300'000U);
}

TEST(Timing, CostsChangeOnlyTimes) {
  model::Cluster cluster = cluster_named("graham2024-bluefield3");
  const ExperimentOptions options = options_for("ialltoall:16KiB", 4, 4, 2);
  const ExperimentResult cheap = run(cluster, options);
  cluster.service.event_ns *= 20;
  cluster.service.move_ns *= 20;
  const ExperimentResult dear = run(cluster, options);
  EXPECT_EQ(cheap.offloaded_moves, dear.offloaded_moves);
  EXPECT_GT(dear.offloaded.pure_ns, cheap.offloaded.pure_ns * 2);
}

// Service processes on the ranks' cores take their time from the computation.
TEST(Timing, OnASharedCoreTheWorkIsExposed) {
  model::Cluster cluster = cluster_named("box");
  const ExperimentOptions options = options_for("ialltoall:1MiB", 4, 1, 1);
  const ExperimentResult shared = run(cluster, options);
  cluster.service.own_core = true;
  const ExperimentResult own = run(cluster, options);
  // 3 MiB out and 3 MiB in, for each of the two hosts that share a core.
  const double socket_ns = 12.0 * (1U << 20U) / cluster.host.socket_bytes_per_s * 1e9;
  EXPECT_NEAR(static_cast<double>(shared.offloaded.exposed_ns), socket_ns, socket_ns * 0.2);
  EXPECT_LT(static_cast<double>(own.offloaded.exposed_ns), socket_ns * 0.2);
}

// Two hosts with a core each, and no costs except those that a test sets.
model::Cluster two_hosts() {
  model::Cluster cluster = cluster_named("box");
  cluster.host.processors = 0;
  cluster.host.socket_bytes_per_s = 1e12;
  cluster.host.switch_ns = 0;
  cluster.network.burst_bytes = 0;
  cluster.noise = {};
  return cluster;
}

// Sockets accept bytes at once, and the network carries them meanwhile.
TEST(Timing, EagerSendsOverlapComputation) {
  model::Cluster cluster = two_hosts();
  ExperimentOptions options = options_for("ialltoall:200kB", 2, 1, 1);
  options.work = parse_work_rule("10 ms").value();
  cluster.mpi.eager_bytes = 1U << 30U;
  const SideTimes at_once = run(cluster, options).native;
  EXPECT_LT(part(at_once.exposed_ns, at_once.pure_ns), 0.1);
  cluster.mpi.eager_bytes = 0;
  const SideTimes asked_for = run(cluster, options).native;
  EXPECT_GT(part(asked_for.exposed_ns, asked_for.pure_ns), 0.9);
}

// Announced, requested, and sent: two latencies more than bytes sent with the announcement.
TEST(Timing, EagerBlocksArriveBeforeTheRequest) {
  model::Cluster cluster = two_hosts();
  cluster.network.link_bytes_per_s = 1e12;
  cluster.network.latency_ns = cluster.network.hop_ns = 5'000'000;
  const auto pull_ns = [&](const char* pattern) {
    ExperimentOptions options = options_for(pattern, 2, 1, 1);
    options.offloaded = "ring_pull";
    return static_cast<double>(run(cluster, options).offloaded.pure_ns);
  };
  const double room_ns = pull_ns("ialltoall:240KiB");  // four chunks of a peer's room of 256 KiB
  EXPECT_NEAR(pull_ns("ialltoall:1KiB"), room_ns, 1e6);
  const double way_ns = 2 * 5e6 + 5e6;
  EXPECT_NEAR(pull_ns("ialltoall:320KiB"), room_ns + 2 * way_ns, 2e6);
}

// Simulating one node gives the time of all.
TEST(Timing, OneNodeStandsForAll) {
  for (const char* name : {"graham2024-bluefield3", "thor-bluefield2"}) {
    model::Cluster cluster = cluster_named(name);
    cluster.noise.skew_ns = 0;
    ExperimentOptions options = options_for("ialltoall:64KiB", 16, 4, 2);
    options.rounds = 1;
    const ExperimentResult all = run(cluster, options);
    const Result<OneNodeResult> one = time_one_node(cluster, OneNodeOptions{options.shape, 65536, 1});
    ASSERT_TRUE(one.ok()) << one.error();
    EXPECT_NEAR(part(one.value().pure_ns, all.offloaded.pure_ns), 1, 0.1) << name;
    EXPECT_EQ(one.value().moves * 2 * 16, all.offloaded_moves);
    // Announcements to each peer, and a release for each of a peer's blocks.
    EXPECT_EQ(one.value().messages_sent, 2U * 31 + 2U * 62);
    EXPECT_EQ(one.value().messages_received, 62U + 2U * 62);
    EXPECT_EQ(one.value().link_bytes, 4U * 60 * 65536);
  }
}

// A late rank finds messages of others, which must not end an operation that it has not begun.
TEST(Timing, LateRanksTakePart) {
  model::Cluster cluster = cluster_named("box");
  const ExperimentOptions options = options_for("ialltoall:64KiB", 4, 1, 1);
  const std::uint64_t together_ns = run(cluster, options).native.pure_ns;
  cluster.noise.skew_ns = 50'000'000;
  EXPECT_GT(run(cluster, options).native.pure_ns, 20'000'000 + together_ns / 2);
}

TEST(Timing, ErrorsNameTheOption) {
  model::Cluster cluster = cluster_named("box");
  cluster.host.waiting = model::Waiting::unknown;
  const auto error = [&cluster](const ExperimentOptions& options) { return run_experiment(cluster, options).error(); };
  EXPECT_NE(error(options_for("ialltoall:1KiB", 5, 1, 1)).find("nodes: from 1 to 4"), std::string::npos);
  EXPECT_NE(error(options_for("ialltoall:1KiB", 4, 2, 1)).find("as many as a host has cores"), std::string::npos);
  ExperimentOptions options = options_for("ialltoall:1KiB", 4, 1, 1);
  options.native = "ring";
  EXPECT_NE(error(options).find("'ring' is none of ialltoall's: default, linear, pairwise, bruck"), std::string::npos);
  options = options_for("iallgather:1KiB", 3, 1, 1);
  options.native = "recursive_doubling";
  EXPECT_NE(error(options).find("power of two"), std::string::npos);
  options = options_for("ialltoall:1KiB", 4, 1, 1);
  options.offloaded = "flat";
  EXPECT_NE(error(options).find("'flat' is none of ialltoall's"), std::string::npos);
  EXPECT_NE(parse_pattern("ialltoall").error().find("write ialltoall:64KiB"), std::string::npos);
  EXPECT_NE(parse_pattern("iscan:8B").error().find("none of: ialltoall, iallgather"), std::string::npos);
  EXPECT_NE(parse_work_rule("osu").error().find("or native, or own"), std::string::npos);
  EXPECT_NE(parse_work_rule("2 h").error().find("work: "), std::string::npos);
  EXPECT_NE(parse_work_rule("3601 s").error().find("up to an hour"), std::string::npos);
  EXPECT_NE(parse_pattern("ibcast:0B").error().find("from 1 B"), std::string::npos);
}

}  // namespace
}  // namespace outrigger::sim::timing
