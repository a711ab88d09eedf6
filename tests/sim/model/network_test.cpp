// Ports and routes compared with times computed by hand.
#include <gtest/gtest.h>

#include <vector>

#include "sim/model/model_network.hpp"
#include "sim/model/topology.hpp"

namespace outrigger::sim::model {
namespace {

using fabric::sim::VirtualTime;

constexpr double kGigabyte = 1e9;  // a byte per nanosecond

// Records when its transfer's last byte arrived.
class End final : public Receiver {
 public:
  explicit End(const VirtualTime& time) : time_(time) {}
  void chunk_arrived(std::uint64_t bytes, bool last) override {
    bytes_ += bytes;
    if (last) end_ns_ = time_.now_ns();
  }
  [[nodiscard]] std::uint64_t end_ns() const { return end_ns_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  const VirtualTime& time_;
  std::uint64_t end_ns_ = 0;
  std::uint64_t bytes_ = 0;
};

class NetworkTest : public ::testing::Test {
 protected:
  Route route(std::initializer_list<PortId> ports) {
    Route made;
    for (const PortId port : ports) made.add(port);
    return made;
  }
  void run() {
    while (time.step()) {
    }
    EXPECT_EQ(network.transfers_in_flight(), 0U);
  }

  VirtualTime time;
  Network network{time, 1000};
};

TEST_F(NetworkTest, OneTransferTakesItsLatenciesAndTheSlowestPortsBytes) {
  const PortId fast = network.add_port({4 * kGigabyte, 0, 70, 0});
  const PortId slow = network.add_port({kGigabyte, 50, 200, 0});
  const PortId last = network.add_port({2 * kGigabyte, 0, 30, 0});
  End end(time);
  network.send(route({fast, slow, last}), 100'000, end);
  run();
  EXPECT_EQ(end.bytes(), 100'000U);
  EXPECT_EQ(end.end_ns(), 70U + 200U + 30U + 50U + 100'000U);
}

TEST_F(NetworkTest, SaturatedPortServesAllAtItsRateRoundRobin) {
  const PortId port = network.add_port({kGigabyte, 0, 100, 0});
  End first(time);
  End second(time);
  End short_one(time);
  network.send(route({port}), 50'000, first);
  network.send(route({port}), 50'000, second);
  network.send(route({port}), 1'000, short_one);
  run();
  EXPECT_EQ(second.end_ns(), 101'000U + 100U);   // all bytes, one latency
  EXPECT_EQ(first.end_ns(), 99'000U + 100U);     // two of its chunks arrived before the second transfer began
  EXPECT_EQ(short_one.end_ns(), 4'000U + 100U);  // behind two chunks of the first and one of the second
  EXPECT_EQ(network.busy_ns(port), 101'000U);
}

// A bucket of 3,000 bytes: they pass at once, later ones at the rate, and a rest of 2 us refills 2,000.
TEST_F(NetworkTest, RestedLinkPassesItsBurstAtOnce) {
  const PortId port = network.add_port({kGigabyte, 0, 0, 0, 3'000});
  End first(time);
  network.send(route({port}), 5'000, first);
  run();
  EXPECT_EQ(first.end_ns(), 2'000U);
  time.after(2'000, [] {});
  run();
  End second(time);
  network.send(route({port}), 5'000, second);
  run();
  EXPECT_EQ(second.end_ns(), 4'000U + 3'000U);
}

TEST_F(NetworkTest, IncastFillsTheQueueOnly) {
  const PortId hot = network.add_port({kGigabyte, 0, 0, 4000});
  const PortId idle = network.add_port({kGigabyte, 0, 0, 4000});
  std::vector<PortId> sources;
  std::deque<End> ends;
  for (int i = 0; i < 8; ++i) {
    sources.push_back(network.add_port({kGigabyte, 0, 10, 4000}));
    network.send(route({sources.back(), hot}), 10'000, ends.emplace_back(time));
  }
  // Another transfer of the first source, behind a chunk without room: it waits although its route is free.
  End behind(time);
  network.send(route({sources[0], idle}), 1'000, behind);
  run();
  std::uint64_t last_ns = 0;
  for (const End& end : ends) last_ns = std::max(last_ns, end.end_ns());
  EXPECT_EQ(last_ns, 80'000U + 10U);  // the hot port is never idle
  EXPECT_EQ(network.most_queued_bytes(hot), 4000U);
  EXPECT_EQ(network.most_queued_bytes(idle), 1000U);
  EXPECT_GT(behind.end_ns(), 3'000U + 10U);  // its time without a limit
}

TEST_F(NetworkTest, WithoutALimitOnlyTheOwnTransferWaits) {
  const PortId hot = network.add_port({kGigabyte, 0, 0, 0});
  const PortId idle = network.add_port({kGigabyte, 0, 0, 0});
  const PortId source = network.add_port({kGigabyte, 0, 10, 0});
  const PortId other = network.add_port({kGigabyte, 0, 10, 0});
  End to_hot(time);
  End more(time);
  End behind(time);
  network.send(route({other, hot}), 50'000, more);
  network.send(route({source, hot}), 10'000, to_hot);
  network.send(route({source, idle}), 1'000, behind);
  run();
  EXPECT_EQ(behind.end_ns(), 3'000U + 10U);  // round-robin: behind two chunks of the source
}

TEST_F(NetworkTest, BlockedPortsContinueInOrderOfArrival) {
  const PortId hot = network.add_port({kGigabyte, 0, 0, 1000});
  std::deque<End> ends;
  for (int i = 0; i < 4; ++i) {
    network.send(route({network.add_port({kGigabyte, 0, 0, 0}), hot}), 2'000, ends.emplace_back(time));
  }
  run();
  EXPECT_EQ(ends[0].end_ns(), 5'000U);  // 0 1 2 3 0 1 2 3
  EXPECT_EQ(ends[3].end_ns(), 8'000U);
}

Cluster cluster_of(TopologyKind kind) {
  Cluster cluster;
  cluster.nodes = 16;
  cluster.host.memory_bytes_per_s = 1000 * kGigabyte;
  cluster.network.topology = kind;
  cluster.network.link_bytes_per_s = kGigabyte;
  cluster.network.latency_ns = 100;
  cluster.network.hop_ns = 10;
  cluster.network.nodes_per_leaf = 4;
  cluster.network.chunk_bytes = 1000;
  return cluster;
}

// The end of the last transfer of `bytes` between those nodes.
std::uint64_t last_end_ns(const Cluster& cluster, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs,
                          std::uint64_t bytes) {
  VirtualTime time;
  Network network(time, cluster.network.chunk_bytes);
  const Topology topology(cluster, cluster.nodes, network);
  std::deque<End> ends;
  for (const auto& [from, to] : pairs) {
    network.send(topology.route(Place{from, Memory::host}, Place{to, Memory::host}), bytes, ends.emplace_back(time));
  }
  std::uint64_t last_ns = 0;
  while (time.step()) {
  }
  for (const End& end : ends) last_ns = std::max(last_ns, end.end_ns());
  return last_ns;
}

const std::vector<std::pair<std::uint32_t, std::uint32_t>> kLeafToLeaf{{0, 4}, {1, 5}, {2, 6}, {3, 7}};

TEST(TopologyTest, FatTreeWithoutTaperIsNonblocking) {
  Cluster cluster = cluster_of(TopologyKind::fat_tree);
  const std::uint64_t bytes = 1'000'000;
  EXPECT_NEAR(static_cast<double>(last_end_ns(cluster, kLeafToLeaf, bytes)), 1e6 + 230, 1e4);
  EXPECT_EQ(last_end_ns(cluster_of(TopologyKind::one_switch), {{0, 4}}, bytes), 1'000'000U + 210U);
}

TEST(TopologyTest, TaperOfFourLeavesAQuarterBetweenLeaves) {
  Cluster cluster = cluster_of(TopologyKind::fat_tree);
  cluster.network.taper = 4;
  EXPECT_NEAR(static_cast<double>(last_end_ns(cluster, kLeafToLeaf, 1'000'000)), 4e6 + 230, 2e4);
  // Not within a leaf.
  EXPECT_NEAR(static_cast<double>(last_end_ns(cluster, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}, 1'000'000)), 1e6 + 210, 1e4);
}

TEST(TopologyTest, TwoGroupsOfADragonflyShareOneLink) {
  Cluster cluster = cluster_of(TopologyKind::dragonfly);
  cluster.network.nodes_per_leaf = 2;
  cluster.network.routers_per_group = 2;
  cluster.network.local_bytes_per_s = 2 * kGigabyte;
  cluster.network.global_bytes_per_s = kGigabyte;
  // From one whole group to the next: the rate of one link. To two other groups: of two links.
  EXPECT_NEAR(static_cast<double>(last_end_ns(cluster, kLeafToLeaf, 1'000'000)), 4e6, 2e4);
  EXPECT_NEAR(static_cast<double>(last_end_ns(cluster, {{0, 4}, {1, 5}, {2, 8}, {3, 9}}, 1'000'000)), 2e6, 2e4);
}

}  // namespace
}  // namespace outrigger::sim::model
