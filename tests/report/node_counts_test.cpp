// Merges the counts of the nodes of a job that has ended too early.
#include "report/node_counts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <random>

#include "ledgers.hpp"
#include "report/json.hpp"

namespace outrigger::report {
namespace {

constexpr CallKind kBarrier{CollectiveCall::barrier, CallForm::blocking};

NodeCounts node_of(std::initializer_list<std::uint32_t> ranks, Ending ended, std::int64_t at_ns) {
  NodeCounts counts;
  counts.ended = std::move(ended);
  counts.ended_at_ns = at_ns;
  for (const std::uint32_t number : ranks) {
    Ledger ledger = make_ledger(number, 5);
    ledger.header().ended_ns = 0;
    add_row(ledger, kBarrier, 3);
    const auto bytes = ledger.bytes();
    counts.ranks.push_back({{bytes.begin(), bytes.end()}, (number + 2) * kSecond});
  }
  return counts;
}

Ending by_signal(int signal, std::uint32_t rank) {
  Ending ended;
  ended.how = "signal";
  ended.signal = signal;
  ended.rank = rank;
  return ended;
}

Ending aborted(std::int32_t code, std::uint32_t rank) {
  Ending ended;
  ended.how = "aborted";
  ended.code = code;
  ended.rank = rank;
  return ended;
}

Ending by_keeper(const std::string& why) {
  Ending ended;
  ended.how = "ended";
  ended.text = why;
  return ended;
}

TEST(NodeCounts, ComeBackAsTheyWere) {
  NodeCounts counts = node_of({1, 3}, by_signal(SIGSEGV, 3), 77);
  counts.ended.text = "why";
  counts.routes = {make_wire_route(true, "rc_verbs/mlx5_0:1"), make_wire_route(false, "tcp/eth0")};
  const std::optional<NodeCounts> again = decode_node_counts(encode_node_counts(counts));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ended.how, "signal");
  EXPECT_EQ(again->ended.signal, SIGSEGV);
  EXPECT_EQ(again->ended.rank, 3U);
  EXPECT_EQ(again->ended.code, std::nullopt);
  EXPECT_EQ(again->ended.text, "why");
  EXPECT_EQ(again->ended_at_ns, 77);
  EXPECT_EQ(again->routes, counts.routes);
  ASSERT_EQ(again->ranks.size(), 2U);
  EXPECT_EQ(again->ranks[1].ledger, counts.ranks[1].ledger);
  EXPECT_EQ(again->ranks[1].left_ns, 5 * kSecond);
}

TEST(NodeCounts, AreRefusedWhenTheyAreCutOrLonger) {
  std::vector<std::byte> bytes = encode_node_counts(node_of({0}, aborted(1, 0), 1));
  for (std::size_t length = 0; length < bytes.size(); length += 7) {
    EXPECT_FALSE(decode_node_counts(std::span(bytes).first(length))) << length;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_node_counts(bytes));
}

TEST(NodeCounts, SpoiltOnesDoNoHarm) {
  const std::vector<std::byte> good = encode_node_counts(node_of({0, 1}, aborted(1, 0), 1));
  std::mt19937_64 random(11);
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::byte> bytes = good;
    for (std::uint64_t spoilt = 1 + random() % 4; spoilt > 0; --spoilt) {
      const std::size_t most = random() % 2 == 0 ? std::min<std::size_t>(bytes.size(), 512) : bytes.size();
      bytes[random() % most] ^= static_cast<std::byte>(1 + random() % 255);
    }
    const std::optional<NodeCounts> counts = decode_node_counts(bytes);
    if (!counts) continue;
    EXPECT_FALSE(as_json(summary_of(std::span(&*counts, 1))).empty());
  }
}

TEST(SummaryOfNodes, CountsAllRanksInTheirOrder) {
  const std::array<NodeCounts, 2> nodes{node_of({0, 3}, by_signal(SIGTERM, 0), 2), node_of({2, 1}, aborted(7, 2), 3)};
  const Summary summary = summary_of(nodes);
  EXPECT_EQ(summary.counted, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(summary.world_size, 5U);
  ASSERT_EQ(summary.calls.size(), 1U);
  EXPECT_EQ(summary.calls.begin()->second.total.calls, 12U);
  EXPECT_EQ(summary.run_seconds.most, 3U) << "each until it has left, by the clock of its node";
  EXPECT_EQ(summary.ended.how, "aborted");
  EXPECT_EQ(summary.ended.rank, 2U);
}

TEST(SummaryOfNodes, CountsARankOnce) {
  const std::array<NodeCounts, 2> nodes{node_of({0, 1}, aborted(1, 0), 1), node_of({1}, aborted(1, 0), 1)};
  EXPECT_EQ(summary_of(nodes).calls.begin()->second.total.calls, 6U);
  EXPECT_EQ(summary_of(nodes).counted.size(), 2U);
}

TEST(SummaryOfNodes, SaysWhatEndedTheJobAndNotWhomThatEnded) {
  const auto of = [](std::initializer_list<NodeCounts> nodes) { return summary_of(std::vector(nodes)).ended; };
  const NodeCounts killed = node_of({0}, by_signal(SIGKILL, 0), 1);
  // The launcher kills the others, also where their keeper's clock says that they were first.
  EXPECT_EQ(of({killed, node_of({1}, by_signal(SIGSEGV, 1), 5)}).rank, 1U);
  EXPECT_EQ(of({killed, node_of({1}, aborted(3, 1), 5)}).how, "aborted");
  EXPECT_EQ(of({killed, node_of({1}, by_keeper("a service process died"), 5)}).text, "a service process died");
  // Ranks notice what their keeper has found.
  EXPECT_EQ(of({node_of({0}, aborted(1, 0), 1), node_of({1}, by_keeper("it"), 2)}).text, "it");
  // The earliest of equal causes counts.
  EXPECT_EQ(of({node_of({0}, by_signal(SIGSEGV, 0), 9), node_of({1}, by_signal(SIGABRT, 1), 5)}).rank, 1U);
  EXPECT_EQ(of({killed, node_of({1}, by_signal(SIGKILL, 1), 5)}).rank, 0U);
  Ending lost;
  lost.how = "lost";
  EXPECT_EQ(of({killed, node_of({1}, lost, 0)}).rank, 0U);
  lost.rank = 1;
  EXPECT_EQ(of({killed, node_of({1}, lost, 0)}).rank, 1U);
  EXPECT_EQ(of({}).how, "running");
}

TEST(SummaryOfNodes, SaysHowManyNodesHaveUsedARoute) {
  std::array<NodeCounts, 2> nodes{node_of({0}, aborted(1, 0), 1), node_of({1}, aborted(1, 0), 1)};
  const WireRoute tcp = make_wire_route(false, "tcp/eth0");
  const WireRoute verbs = make_wire_route(true, "rc_verbs/mlx5_0:1");
  nodes[0].routes = {tcp};
  nodes[1].routes = {verbs, tcp};
  const std::vector<WireUse> wire = summary_of(nodes).wire;
  ASSERT_EQ(wire.size(), 2U);
  EXPECT_EQ(wire[0].route, tcp);
  EXPECT_EQ(wire[0].nodes, 2U);
  EXPECT_EQ(wire[1].nodes, 1U);
}

}  // namespace
}  // namespace outrigger::report
