// Messages and memory of one service process of a large job: exactly as in the algorithms' headers, and nothing grows
// with ranks times ranks.
#include "sim/scale.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "protocol/wire/peer_messages.hpp"

namespace outrigger::sim {
namespace {

constexpr std::size_t kAnnounce = 0;
constexpr std::size_t kDelivered = 1;
constexpr std::size_t kRelease = 2;

class Scale : public ::testing::TestWithParam<std::tuple<Algorithm, bool, std::uint32_t>> {
 protected:
  static ScaleOptions options(std::uint32_t nodes) {
    ScaleOptions options;
    options.nodes = nodes;
    std::tie(options.algorithm, options.v_form, options.services) = GetParam();
    return options;
  }
  static ScaleResult counted(const ScaleOptions& options) {
    const Result<ScaleResult> result = count_scale(options);
    EXPECT_TRUE(result.ok()) << result.error();
    return result.ok() ? result.value() : ScaleResult();
  }
};

INSTANTIATE_TEST_SUITE_P(Simulation, Scale,
                         ::testing::Combine(::testing::Values(Algorithm::ring_pull, Algorithm::scatter_dest),
                                            ::testing::Bool(), ::testing::Values(1U, 4U)),
                         [](const auto& parameter) {
                           return std::string(name_of(std::get<0>(parameter.param))) +
                                  (std::get<1>(parameter.param) ? "_v_" : "_regular_") +
                                  std::to_string(std::get<2>(parameter.param));
                         });

TEST_P(Scale, MessagesMatchTheAlgorithm) {
  for (const Arrival arrival : {Arrival::spread, Arrival::early, Arrival::late}) {
    ScaleOptions chosen = options(40);
    chosen.arrival = arrival;
    const ScaleResult result = counted(chosen);
    const engine::EngineCounters& counters = result.counters;
    const std::uint64_t local = result.local_ranks;
    const std::uint64_t remote_pairs = local * (result.ranks - local);
    const bool pushes = chosen.algorithm == Algorithm::scatter_dest;
    EXPECT_EQ(counters.sent[kAnnounce].count, local * result.peers);
    EXPECT_EQ(counters.sent[kAnnounce].bytes,
              local * result.peers * peer::announce_bytes() + (chosen.v_form ? remote_pairs * peer::kExtentBytes : 0));
    EXPECT_EQ(counters.sent[kRelease].count, remote_pairs);
    EXPECT_EQ(counters.sent[kDelivered].count, pushes ? remote_pairs : 0U);
    EXPECT_EQ(counters.received[kAnnounce].count, result.ranks - local);
    EXPECT_EQ(counters.received[kRelease].count, remote_pairs);
    EXPECT_EQ(counters.moves, local * (result.ranks - 1));
    EXPECT_LE(counters.most_frames, local + engine::window_moves_for(chosen.nodes, chosen.services));
    EXPECT_LE(counters.most_inbound, 64U);
    EXPECT_LE(counters.most_kept_announcements, result.ranks - local);
  }
}

TEST_P(Scale, NothingGrowsWithRanksTimesRanks) {
  const ScaleResult small = counted(options(16));
  const ScaleResult large = counted(options(64));
  const double growth = 4.0;
  const auto messages = [](const ScaleResult& result) {
    std::uint64_t sum = 0;
    for (const auto& kind : result.counters.sent) sum += kind.count;
    return static_cast<double>(sum);
  };
  // The service process itself is not a peer: 63 peers to 15.
  EXPECT_LE(messages(large) / messages(small), growth * 1.06);
  ASSERT_GT(small.peak_bytes, 0);
  EXPECT_LE(static_cast<double>(large.peak_bytes) / static_cast<double>(small.peak_bytes), growth * 1.1);
  EXPECT_LE(static_cast<double>(large.group_bytes) / static_cast<double>(small.group_bytes), growth * 1.1);
}

// 3 bytes and 1 bit per pair, and 32 bytes per rank. V-forms add 32 bytes of the post and 16 of the announcement. Data
// kept for local ranks that have not posted comes on top.
TEST_P(Scale, PairsCostFewBytes) {
  const ScaleOptions chosen = options(64);
  const ScaleResult result = counted(chosen);
  const double per_rank = 32 + 250;
  const double per_pair = chosen.v_form ? 4.0 + 32 + 16 + 16 : 4.0;
  EXPECT_LE(result.operation_bytes_per_pair(), per_pair + per_rank / result.local_ranks);
}

TEST(ScaleOptions, ErrorsNameTheOption) {
  ScaleOptions options;
  options.nodes = 1;
  EXPECT_NE(count_scale(options).error().find("nodes"), std::string::npos);
  options = ScaleOptions();
  options.services = 5;
  EXPECT_NE(count_scale(options).error().find("5 does not divide 32"), std::string::npos);
  options = ScaleOptions();
  options.block_bytes = 0;
  EXPECT_NE(count_scale(options).error().find("block bytes"), std::string::npos);
}

}  // namespace
}  // namespace outrigger::sim
