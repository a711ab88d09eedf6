// Random schedules under each kind of fault; a seed gives a replay.
#include "sim/simulation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "fabric/sim/sim_fabric.hpp"

namespace outrigger::sim {
namespace {

struct Faults {
  const char* name;
  fabric::sim::FaultOptions (*make)();
  std::uint64_t seeds;
};

void PrintTo(const Faults& faults, std::ostream* out) {
  *out << faults.seeds << " seeds";
}

// Sanitizers and emulation make a schedule ten times as long, so only the plain build runs many.
constexpr std::uint64_t seeds(std::uint64_t many) {
#if defined(OUTRIGGER_SANITIZED) || defined(OUTRIGGER_EMULATED)
  return many / 10;
#else
  return many;
#endif
}

std::vector<Algorithm> every_algorithm() {
  std::vector<Algorithm> all;
  for (const AlgorithmName& known : kAlgorithms) all.push_back(known.algorithm);
  return all;
}

class Schedules : public ::testing::TestWithParam<std::tuple<Algorithm, Faults>> {};

TEST_P(Schedules, KeepEveryInvariant) {
  const auto& [algorithm, faults] = GetParam();
  std::uint64_t crashes = 0;
  std::uint64_t losses = 0;
  std::uint64_t replayed = 0;
  std::uint64_t eager_blocks = 0;
  for (std::uint64_t seed = 1; seed <= faults.seeds; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.algorithm = algorithm;
    options.faults = faults.make();
    const SimulationResult result = simulate(options);
    ASSERT_FALSE(result.broken.has_value())
        << *result.broken << "\nreplay: outrigger-sim --algorithm " << name_of(algorithm) << " --faults " << faults.name
        << " --seed " << seed << " --trace";
    ASSERT_NE(result.operations + result.losses, 0U);
    crashes += result.crashes;
    losses += result.losses;
    replayed += result.replayed_posts;
    eager_blocks += result.blocks_eager;
  }
  // The test is useless without faults.
  EXPECT_EQ(crashes != 0, faults.make().most_crashes != 0);
  EXPECT_EQ(losses != 0, faults.make().most_losses != 0);
  EXPECT_EQ(replayed != 0, faults.make().most_crashes != 0);
  const bool eager_sends = algorithm == Algorithm::ring_pull || algorithm == Algorithm::node_pull ||
                           algorithm == Algorithm::sliced_pull || algorithm == Algorithm::rooted;
  EXPECT_EQ(eager_blocks != 0, faults.make().eager_chance != 0 && eager_sends);
}

INSTANTIATE_TEST_SUITE_P(
    Simulation, Schedules,
    ::testing::Combine(::testing::ValuesIn(every_algorithm()),
                       ::testing::Values(Faults{"none", fabric::sim::no_faults, seeds(160)},
                                         Faults{"delays", fabric::sim::delays, seeds(320)},
                                         Faults{"crashes", fabric::sim::crashes, seeds(560)},
                                         Faults{"all", fabric::sim::all_faults, seeds(560)},
                                         Faults{"losses", fabric::sim::losses, seeds(160)},
                                         Faults{"everything", fabric::sim::all_and_losses, seeds(320)})),
    [](const auto& parameter) {
      return std::string(name_of(std::get<0>(parameter.param))) + "_" + std::get<1>(parameter.param).name;
    });

TEST(Simulation, SeedGivesAReplay) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.faults = fabric::sim::all_faults();
    const SimulationResult first = simulate(options);
    const SimulationResult second = simulate(options);
    EXPECT_EQ(first.messages, second.messages);
    EXPECT_EQ(first.moved_chunks, second.moved_chunks);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
    EXPECT_EQ(first.operations, second.operations);
  }
}

struct CountsArrivals final : fabric::sim::Observer {
  void chunk_moves(SpId /*by*/, const Block& /*from*/, const Block& /*to*/) override {}
  void eager_read(SpId /*by*/, const Block& /*from*/) override {}
  void move_ended(SpId /*by*/) override {}
  void marked(SpId /*by*/, WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/,
              BlockMark /*mark*/) override {}
  void completed(SpId /*by*/, WorldRank /*rank*/, SlotIndex /*slot*/,
                 const fabric::CompletionRecord& /*record*/) override {}
  void arrived(SpId /*from*/, SpId /*to*/, std::vector<std::byte> /*message*/) override { ++arrivals; }
  void sent(SpId /*from*/, SpId /*to*/, std::span<const std::byte> /*message*/) override {}
  int arrivals = 0;
};

// A connection belongs to one incarnation of a process: its replacement gets none of the earlier messages.
TEST(Simulation, MessagesToADeadProcessAreLost) {
  CountsArrivals seen;
  fabric::sim::World world(1, fabric::sim::delays(), 2, seen);
  const std::array<std::byte, 4> message{};
  world.send(SpId{0}, SpId{1}, message);
  world.lose_messages_of(SpId{1});
  world.send(SpId{0}, SpId{1}, message);
  world.is_back(SpId{1});
  EXPECT_EQ(world.messages_in_flight(), 0U);
  world.send(SpId{0}, SpId{1}, message);
  while (world.time.step()) {
  }
  EXPECT_EQ(seen.arrivals, 1);
}

}  // namespace
}  // namespace outrigger::sim
