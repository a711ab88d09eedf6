// The native algorithms compared with their closed forms, on a cluster where only the links cost time.
#include "sim/baselines/baselines.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/timing/native_side.hpp"
#include "sim/timing/program.hpp"

namespace outrigger::sim {
namespace {

constexpr double kGigabyte = 1e9;  // a byte per nanosecond
constexpr std::uint64_t kLatency_ns = 2010;
constexpr std::uint64_t kBytes = 1'000'000;

// One rank per node; only the network takes time: kLatency_ns plus a nanosecond per byte.
model::Cluster only_links(std::uint64_t eager_bytes) {
  model::Cluster cluster;
  cluster.nodes = 64;
  cluster.host.memory_bytes_per_s = cluster.host.copy_bytes_per_s = cluster.host.reduce_bytes_per_s = 1e18;
  cluster.host.socket_bytes_per_s = 1e18;
  cluster.mpi.eager_bytes = eager_bytes;
  cluster.network.link_bytes_per_s = kGigabyte;
  cluster.network.latency_ns = 1000;
  cluster.network.hop_ns = 10;
  cluster.network.chunk_bytes = 10'000;
  return cluster;
}

struct Measured {
  double us = 0;       // of the first round
  double last_us = 0;  // of the last round
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

Measured measure(const model::Cluster& cluster, const JobShape& shape, Collective collective, const char* name,
                 std::uint64_t bytes = kBytes, std::uint32_t root = 0, std::uint32_t rounds = 1) {
  const timing::Call call{collective, Algorithm::ring_pull, baselines::baseline_named(collective, name), bytes, root};
  const timing::Workload workload = timing::one_call(Places(shape), call);
  model::Machine machine(cluster, shape, timing::bytes_on_a_node(workload, shape));
  timing::NativeSide side(machine, workload, false);
  const Result<timing::RoundTimes> times = timing::run_rounds(machine, side, timing::Rounds{rounds, 0, 1, 100'000'000});
  EXPECT_TRUE(times.ok()) << times.error();
  if (!times) return {};
  return {static_cast<double>(times.value().total_ns.front()) / 1000,
          static_cast<double>(times.value().total_ns.back()) / 1000, side.hosts().messages(),
          side.hosts().message_bytes()};
}

// Expects `latencies` latencies and `blocks` consecutive blocks.
void expect_us(const Measured& measured, double latencies, double blocks) {
  const double us = latencies * static_cast<double>(kLatency_ns) / 1000 + blocks * static_cast<double>(kBytes) / 1000;
  EXPECT_NEAR(measured.us, us, us * 0.02);
}

JobShape ranks(std::uint32_t count) {
  return JobShape{count, 1, 1, Mapping::contiguous};
}

TEST(Baselines, TakeTheTimeOfTheirClosedForms) {
  const model::Cluster eager = only_links(1U << 30U);
  const auto on = [&eager](std::uint32_t count, Collective collective, const char* name) {
    return measure(eager, ranks(count), collective, name);
  };
  for (const std::uint32_t p : {8U, 11U}) {
    expect_us(on(p, Collective::ialltoall, "pairwise"), p - 1, p - 1);
    expect_us(on(p, Collective::ialltoall, "linear"), 1, p - 1);
    expect_us(on(p, Collective::iallgather, "ring"), p - 1, p - 1);
    expect_us(on(p, Collective::iallgather, "linear"), 1, p - 1);
    expect_us(on(p, Collective::ibcast, "linear"), 1, p - 1);
    expect_us(on(p, Collective::ibcast, "binomial"), std::ceil(std::log2(p)), std::ceil(std::log2(p)));
  }
  expect_us(on(8, Collective::ialltoall, "bruck"), 3, 3 * 4);
  expect_us(on(8, Collective::iallgather, "recursive_doubling"), 3, 7);
  expect_us(on(8, Collective::ibcast, "scatter_allgather"), 3 + 7, 2.0 * 7 / 8);
  expect_us(on(8, Collective::iallreduce, "recursive_doubling"), 3, 3);
  expect_us(on(8, Collective::iallreduce, "binomial"), 6, 6);
  expect_us(on(8, Collective::ireduce, "binomial"), 3, 3);
  expect_us(on(8, Collective::igather, "binomial"), 3, 7);
  expect_us(on(8, Collective::iscatter, "binomial"), 3, 7);
  expect_us(on(8, Collective::ireduce_scatter_block, "recursive_halving"), 3, 7);
  expect_us(on(11, Collective::ireduce_scatter_block, "pairwise"), 10, 10);
  expect_us(on(8, Collective::iallreduce, "rabenseifner"), 6, 2.0 * 7 / 8);
}

TEST(Baselines, SendAsTheirHeadersSay) {
  const model::Cluster cluster = only_links(0);  // each one announced and read
  const auto messages = [&cluster](std::uint32_t p, Collective collective, const char* name) {
    return measure(cluster, ranks(p), collective, name).messages;
  };
  EXPECT_EQ(messages(11, Collective::ialltoall, "pairwise"), 11U * 10);
  EXPECT_EQ(messages(40, Collective::ialltoall, "linear"), 40U * 39);  // above the limit of concurrent messages
  EXPECT_EQ(messages(11, Collective::ialltoall, "bruck"), 11U * 4);
  EXPECT_EQ(messages(11, Collective::iallgather, "ring"), 11U * 10);
  EXPECT_EQ(messages(16, Collective::iallgather, "recursive_doubling"), 16U * 4);
  EXPECT_EQ(messages(11, Collective::iallgather, "linear"), 11U * 10);
  EXPECT_EQ(messages(11, Collective::ibcast, "linear"), 10U);
  EXPECT_EQ(messages(11, Collective::ibcast, "binomial"), 10U);
  EXPECT_EQ(messages(11, Collective::ibcast, "scatter_allgather"), 10U + 11U * 10);
  EXPECT_EQ(messages(6, Collective::iallreduce, "recursive_doubling"), 2U + 4 * 2 + 2);
  EXPECT_EQ(messages(6, Collective::iallreduce, "rabenseifner"), 2U + 4 * 4 + 2);
  EXPECT_EQ(messages(11, Collective::iallreduce, "binomial"), 2U * 10);
  EXPECT_EQ(messages(11, Collective::igather, "binomial"), 10U);
  EXPECT_EQ(messages(11, Collective::iscatter, "binomial"), 10U);
  EXPECT_EQ(messages(11, Collective::ireduce, "binomial"), 10U);
  EXPECT_EQ(messages(11, Collective::ibarrier, "dissemination"), 11U * 4);
  EXPECT_EQ(messages(6, Collective::ireduce_scatter_block, "recursive_halving"), 2U + 4 * 2 + 2);
  EXPECT_EQ(messages(11, Collective::ireduce_scatter_block, "pairwise"), 11U * 10);
  // Blocks on the tree's edges: 1, 2 and 4 of 8, from the leaves up.
  EXPECT_EQ(measure(cluster, ranks(8), Collective::igather, "binomial", 100).bytes, 100U * (4 * 1 + 2 * 2 + 1 * 4));
  EXPECT_EQ(measure(cluster, ranks(8), Collective::iscatter, "binomial", 100).bytes, 100U * (4 * 1 + 2 * 2 + 1 * 4));
  EXPECT_EQ(measure(cluster, ranks(8), Collective::ireduce_scatter_block, "recursive_halving", 100).bytes,
            8U * 100 * (4 + 2 + 1));
  EXPECT_EQ(measure(cluster, ranks(8), Collective::iallreduce, "rabenseifner", 8000).bytes, 8U * 2 * 7000);
  EXPECT_EQ(measure(cluster, ranks(11), Collective::ialltoall, "bruck", 1).bytes, 11U * (5 + 5 + 4 + 3));
}

TEST(Baselines, BroadcastFromAnyRoot) {
  for (const char* name : {"linear", "binomial", "scatter_allgather"}) {
    const Measured from_0 = measure(only_links(0), ranks(11), Collective::ibcast, name);
    const Measured from_7 = measure(only_links(0), ranks(11), Collective::ibcast, name, kBytes, 7);
    EXPECT_EQ(from_0.messages, from_7.messages);
    EXPECT_DOUBLE_EQ(from_0.us, from_7.us);
  }
}

// Announced, requested, read: two latencies more than an eager message.
TEST(Baselines, RequestedMessageTakesTwoMoreLatencies) {
  const Measured eager = measure(only_links(1U << 30U), ranks(2), Collective::ialltoall, "pairwise");
  const Measured asked_for = measure(only_links(0), ranks(2), Collective::ialltoall, "pairwise");
  // One more to tell the sender.
  EXPECT_NEAR(asked_for.us - eager.us, 3 * static_cast<double>(kLatency_ns) / 1000, 0.5);
}

TEST(Baselines, ProcessorsPayForBytesAtBothEnds) {
  model::Cluster cluster = only_links(0);
  cluster.network.wire = model::WireKind::processor;
  cluster.host.socket_bytes_per_s = kGigabyte / 4;
  const Measured measured = measure(cluster, ranks(2), Collective::ialltoall, "pairwise");
  // Each core sends a megabyte and receives one, at 4 ns per byte.
  EXPECT_NEAR(measured.us, 8 * static_cast<double>(kBytes) / 1000, 200);
}

TEST(Baselines, WithinANodeTheReceiverCopies) {
  model::Cluster cluster = only_links(0);
  cluster.host.cores = 4;
  cluster.host.copy_bytes_per_s = kGigabyte;
  const JobShape shape{1, 4, 1, Mapping::contiguous};
  const Measured alone = measure(cluster, shape, Collective::ialltoall, "pairwise");
  EXPECT_NEAR(alone.us, 4 * static_cast<double>(kBytes) / 1000, 50);  // the own block and three others
  // for four concurrent copies that read and write one byte per nanosecond each
  cluster.host.memory_bytes_per_s = 4 * kGigabyte;
  const Measured together = measure(cluster, shape, Collective::ialltoall, "pairwise");
  EXPECT_NEAR(together.us, (1 + 3 * 2) * static_cast<double>(kBytes) / 1000, 100);
}

TEST(Baselines, WithinANodeMessagesHaveTheirOwnRateAndARendezvousCost) {
  model::Cluster cluster = only_links(0);
  cluster.host.cores = 2;
  cluster.host.copy_bytes_per_s = kGigabyte;
  cluster.mpi.copy_bytes_per_s = kGigabyte / 2;
  cluster.mpi.rendezvous_ns = 500'000;
  const JobShape shape{1, 2, 1, Mapping::contiguous};
  const double copy_us = static_cast<double>(kBytes) / 1000;
  // The own block at the core's rate, the other's at the rate of messages.
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us, (1 + 2) * copy_us + 500, 50);
  cluster.mpi.eager_bytes = 1U << 30U;  // into the MPI's memory and out of it
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us, (1 + 2 * 2) * copy_us, 50);
  cluster.mpi.eager_bytes_per_s = kGigabyte / 4;  // both copies, at a rate of their own
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us, (1 + 2 * 4) * copy_us, 50);
}

TEST(Baselines, BytesInTheCacheLoadNoMemory) {
  model::Cluster cluster = only_links(0);
  cluster.host.cores = 4;
  cluster.host.copy_bytes_per_s = kGigabyte;
  cluster.host.memory_bytes_per_s = 4 * kGigabyte;
  const JobShape shape{1, 4, 1, Mapping::contiguous};
  const std::uint64_t buffers_bytes = 4 * 2 * 4 * kBytes;  // of four ranks: four blocks sent and four received
  const double copy_us = static_cast<double>(kBytes) / 1000;
  cluster.host.cache_bytes = buffers_bytes;
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us, 4 * copy_us, 50);
  // Half of the bytes miss the cache, at two bytes per nanosecond.
  cluster.host.cache_bytes = buffers_bytes / 2;
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us, 4 * copy_us * (1 + 0.5 / 2), 50);
  // Or are copied at a given rate.
  cluster.host.missed_bytes_per_s = kGigabyte / 4;
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us, 4 * copy_us * (0.5 + 0.5 * 4), 50);
  cluster.mpi.copy_bytes_per_s = kGigabyte;
  cluster.mpi.missed_bytes_per_s = kGigabyte / 2;  // of the three blocks that are messages
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us,
              copy_us * (0.5 + 0.5 * 4) + 3 * copy_us * (0.5 + 0.5 * 2), 50);
  // Without caches in the file: at the core's rate, until memory is the limit.
  cluster.host.cache_bytes = 0;
  EXPECT_NEAR(measure(cluster, shape, Collective::ialltoall, "pairwise").us, (1 + 3 * 2) * copy_us, 100);
}

// A round begins after the links have rested, so it starts with a full burst.
TEST(Baselines, EachRoundFindsRestedLinks) {
  model::Cluster cluster = only_links(1U << 30U);
  const Measured rested = measure(cluster, ranks(2), Collective::ialltoall, "pairwise", kBytes, 0, 3);
  cluster.network.burst_bytes = kBytes;
  const Measured burst = measure(cluster, ranks(2), Collective::ialltoall, "pairwise", kBytes, 0, 3);
  EXPECT_GT(rested.last_us, static_cast<double>(kBytes) / 1000);
  EXPECT_NEAR(burst.last_us, burst.us, 1);
  EXPECT_LT(burst.last_us, 10);
}

TEST(Baselines, DefaultsDependOnSize) {
  EXPECT_EQ(baselines::default_baseline(model::MpiFamily::mpich, Collective::ialltoall, 64, 64, false)->name, "bruck");
  EXPECT_EQ(baselines::default_baseline(model::MpiFamily::mpich, Collective::ialltoall, 64, 4096, false)->name,
            "linear");
  EXPECT_EQ(baselines::default_baseline(model::MpiFamily::mpich, Collective::ialltoall, 64, 1U << 20U, false)->name,
            "pairwise");
  EXPECT_EQ(baselines::default_baseline(model::MpiFamily::mpich, Collective::iallgather, 48, 64, false)->name, "ring");
  const model::MpiFamily mpich = model::MpiFamily::mpich;
  EXPECT_EQ(baselines::default_baseline(mpich, Collective::ireduce_scatter_block, 8, 1024, false)->name,
            "recursive_halving");
  EXPECT_EQ(baselines::default_baseline(mpich, Collective::ireduce_scatter_block, 8, 1U << 20U, false)->name,
            "pairwise");
  EXPECT_EQ(baselines::default_baseline(mpich, Collective::ibarrier, 48, 0, false)->name, "dissemination");
  EXPECT_EQ(baselines::default_baseline(mpich, Collective::iscan, 48, 64, false), nullptr);
  const model::MpiFamily openmpi = model::MpiFamily::openmpi;
  EXPECT_EQ(baselines::default_baseline(openmpi, Collective::iallreduce, 2, 1U << 20U, false)->name, "binomial");
  EXPECT_EQ(baselines::default_baseline(openmpi, Collective::iallreduce, 2, 1U << 20U, true)->name, "rabenseifner");
  EXPECT_EQ(baselines::default_baseline(openmpi, Collective::ialltoall, 64, 1U << 20U, false)->name, "linear");
  EXPECT_EQ(baselines::default_baseline(openmpi, Collective::ibcast, 4, 64, false)->name, "linear");
  EXPECT_EQ(baselines::default_baseline(openmpi, Collective::ibcast, 5, 64, false)->name, "binomial");
}

}  // namespace
}  // namespace outrigger::sim
