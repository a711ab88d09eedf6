// Programs in virtual time compared with times computed by hand, and their file format.
#include "sim/timing/script.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sim/timing/lanes.hpp"

namespace outrigger::sim::timing {
namespace {

constexpr double kLatency_us = 2.01;

// One rank per node; only the network takes time: kLatency_us plus a nanosecond per byte.
model::Cluster only_links(std::uint64_t eager_bytes) {
  model::Cluster cluster;
  cluster.nodes = 8;
  cluster.host.memory_bytes_per_s = cluster.host.copy_bytes_per_s = cluster.host.reduce_bytes_per_s = 1e18;
  cluster.host.socket_bytes_per_s = 1e18;
  cluster.service.copy_bytes_per_s = cluster.service.reduce_bytes_per_s = 1e18;
  cluster.mpi.eager_bytes = eager_bytes;
  cluster.network.link_bytes_per_s = 1e9;
  cluster.network.latency_ns = 1000;
  cluster.network.hop_ns = 10;
  cluster.network.chunk_bytes = 10'000;
  return cluster;
}

Script parsed(const std::string& text) {
  const Result<Script> script = parse_script(text, "program.json");
  EXPECT_TRUE(script.ok()) << script.error();
  return script ? script.value() : Script();
}

// `fields`: JSON between the head and the steps.
Script program(std::uint32_t ranks, const std::string& fields, const std::string& steps, std::uint32_t repeat = 1) {
  return parsed("{\"outrigger_program\": 1, \"ranks\": " + std::to_string(ranks) +
                ", \"repeat\": " + std::to_string(repeat) + fields + ", \"steps\": [" + steps + "]}");
}

struct Times {
  double total_us = 0;
  double exposed_us = 0;
  double in_mpi_us = 0;
};

Times run(const model::Cluster& cluster, const Script& script, Lane lane, LaneOptions options = {}) {
  options.shape = JobShape{script.ranks, 1, 1, Mapping::contiguous};
  const Result<ScriptTimes> times = run_lane(cluster, script, lane, options);
  EXPECT_TRUE(times.ok()) << times.error();
  if (!times) return {};
  const double total_us = static_cast<double>(times.value().total_ns) / 1000;
  return {total_us, total_us - static_cast<double>(times.value().work_alone_ns) / 1000, times.value().in_mpi_ns / 1000};
}

TEST(Script, RepeatsItsSteps) {
  const Script script = program(2, "", R"({"work_us": 100}, {"call": "ibarrier"})", 5);
  EXPECT_NEAR(run(only_links(1U << 30U), script, Lane::nonblocking).total_us, 5 * (100 + kLatency_us), 0.1);
}

const std::string kOverlap =
    R"({"post": "ialltoall", "bytes": 1000000, "request": "a"}, {"work_us": 3000}, {"wait": ["a"]})";

TEST(Script, LongMessageNeedsAnMpiCall) {
  const model::Cluster cluster = only_links(0);
  const Script script = program(2, "", kOverlap);
  EXPECT_NEAR(run(cluster, script, Lane::nonblocking).exposed_us, 1000, 20);
  EXPECT_NEAR(run(cluster, script, Lane::blocking).exposed_us, 1000, 20);
  // The transfer begins at the first test that sees the announcement; another test sees the end.
  EXPECT_LT(run(cluster, script, Lane::testing).exposed_us, 10);
  EXPECT_LT(run(cluster, script, Lane::threads).exposed_us, 10);
  EXPECT_LT(run(cluster, script, Lane::offloaded).exposed_us, 10);
}

TEST(Script, TestsMakeProgress) {
  LaneOptions options;
  options.test_every_ns = 2'500'000;  // of 3 ms, so half a millisecond of a message is left
  EXPECT_NEAR(run(only_links(0), program(2, "", kOverlap), Lane::testing, options).exposed_us, 500, 20);
}

TEST(Script, RanksSynchronizePerCommunicator) {
  const std::string grid = R"(, "work_of_rank": [1, 1, 3, 3], "communicators": {
      "rows": {"groups": [[0, 1], [2, 3]]}, "columns": {"groups": [[0, 2], [1, 3]]}})";
  const auto in_mpi_us = [&](const char* name) {
    const std::string call = std::string(R"({"call": "ibarrier", "communicator": ")") + name + "\"}";
    return run(only_links(1U << 30U), program(4, grid, R"({"work_us": 1000}, )" + call), Lane::nonblocking).in_mpi_us;
  };
  EXPECT_NEAR(in_mpi_us("rows"), kLatency_us, 1);
  EXPECT_NEAR(in_mpi_us("columns"), (2000 + kLatency_us) / 2, 5);  // two of four wait for 2 ms
}

TEST(Script, AListOfBytesIsByDistance) {
  const auto total_us = [](const char* bytes) {
    const std::string call = std::string(R"({"call": "ialltoallv", "bytes": )") + bytes + "}";
    return run(only_links(1U << 30U), program(4, "", call), Lane::nonblocking).total_us;
  };
  EXPECT_NEAR(total_us("[0, 100000, 0, 0]"), 100 + kLatency_us, 1);
  EXPECT_NEAR(total_us("[0, 100000, 200000, 0]"), 300 + kLatency_us, 1);
}

TEST(Script, WorkFactorAppliesWithCoresGivenAway) {
  const Script script = program(2, "", R"({"work_us": 1000}, {"call": "ibarrier"})");
  LaneOptions options;
  options.service_work_factor = 1.25;
  EXPECT_NEAR(run(only_links(0), script, Lane::nonblocking, options).total_us, 1000, 20);
  EXPECT_NEAR(run(only_links(0), script, Lane::offloaded, options).total_us, 1250, 20);
}

TEST(Script, EveryModelledCollectiveEndsOnBothSides) {
  const Result<model::Cluster> cluster = model::read_cluster(OUTRIGGER_CLUSTERS "/graham2024-bluefield3.toml");
  ASSERT_TRUE(cluster.ok());
  const std::string ring = R"(, "communicators": {"ring": {"groups": [[0, 1, 2, 3, 4, 5]],
      "neighbors": [[1, 5], [0, 2], [1, 3], [2, 4], [3, 5], [4, 0]]}})";
  for (const CollectiveRow& row : kCollectives) {
    if (!can_post(row.collective)) continue;
    const std::string step = std::string(R"({"post": ")") + std::string(row.name) +
                             R"(", "bytes": 120000, "communicator": "ring", "request": "a"}, {"wait": ["a"]})";
    const Script script = program(
        6, ring,
        row.collective == Collective::ibarrier ? R"({"post": "ibarrier", "request": "a"}, {"wait": ["a"]})" : step, 3);
    for (const Lane lane : {Lane::nonblocking, Lane::offloaded}) {
      LaneOptions options;
      options.shape = JobShape{3, 2, 1, Mapping::contiguous};
      const Result<ScriptTimes> times = run_lane(cluster.value(), script, lane, options);
      EXPECT_TRUE(times.ok()) << row.name << ": " << times.error();
      EXPECT_GT(times ? times.value().total_ns : 0, 3000U) << row.name;
    }
  }
}

TEST(Script, BlockingCallsStayNativeByDefault) {
  const model::Cluster cluster = only_links(0);
  const Script script = program(4, "", R"({"call": "iallreduce", "bytes": 4000})");
  LaneOptions options;
  const double native_us = run(cluster, script, Lane::nonblocking).total_us;
  EXPECT_DOUBLE_EQ(run(cluster, script, Lane::offloaded, options).total_us, native_us);
  options.offload_blocking = true;
  EXPECT_NE(run(cluster, script, Lane::offloaded, options).total_us, native_us);
}

std::string error_of(const std::string& fields, const std::string& steps) {
  const Result<Script> script = parse_script(
      R"({"outrigger_program": 1, "ranks": 4, "repeat": 1)" + fields + ", \"steps\": [" + steps + "]}", "p.json");
  return script ? "none" : script.error();
}

TEST(ScriptFile, ErrorsNameFieldAndProblem) {
  EXPECT_EQ(parse_script("{", "p.json").error(), "p.json: not valid JSON");
  EXPECT_EQ(error_of("", R"({"call": "iscan", "bytes": 8})"), "p.json: steps[0].call: iscan is not modelled");
  EXPECT_EQ(error_of("", R"({"wait": ["a"]})"), "p.json: steps[0].wait: \"a\" is not an active request");
  EXPECT_EQ(error_of("", R"({"post": "ibarrier", "request": "a"})"),
            "p.json: steps: request 'a' is never waited for; end with {\"wait\": [\"a\"]}");
  EXPECT_EQ(error_of("", R"({"call": "iallreduce", "bytes": 7})"),
            "p.json: steps[0].bytes: a reduction has whole elements of 4 bytes");
  EXPECT_EQ(error_of("", R"({"call": "ibcast", "bytes": 7, "root": 4})"),
            "p.json: steps[0].root: a whole number from 0 to 3");
  EXPECT_EQ(error_of("", R"({"work_us": 1, "color": 2})"), "p.json: steps[0].color: unknown key; allowed are work_us");
  EXPECT_EQ(error_of(R"(, "communicators": {"a": {"groups": [[0, 1], [2]]}})", R"({"work_us": 1})"),
            "p.json: communicators.a.groups: rank 3 is in no group; a single rank may be a group");
  EXPECT_EQ(error_of(R"(, "communicators": {"a": {"groups": [[0, 1, 2, 3]], "neighbors": [[1], [], [], []]}})",
                     R"({"work_us": 1})"),
            "p.json: communicators.a.neighbors: 1 is a neighbor of rank 0, but not the other way");
  EXPECT_EQ(error_of("", R"({"call": "ineighbor_alltoall", "bytes": 7})"),
            "p.json: steps[0].communicator: its ranks have no neighbors; add a list of neighbors");
}

}  // namespace
}  // namespace outrigger::sim::timing
