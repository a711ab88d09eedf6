// Random schedules under each kind of fault, and that a seed is a replay.
#include "sim/simulation.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <tuple>
#include <vector>

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

// Sanitizers and emulated processors make a schedule ten times as long; the plain build runs the many.
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
    ASSERT_NE(result.operations, 0U);
    crashes += result.crashes;
    replayed += result.replayed_posts;
    eager_blocks += result.blocks_eager;
  }
  // The faults must be there to be survived.
  EXPECT_EQ(crashes != 0, faults.make().most_crashes != 0);
  EXPECT_EQ(replayed != 0, faults.make().most_crashes != 0);
  const bool eager_sends = algorithm == Algorithm::ring_pull || algorithm == Algorithm::node_pull;
  EXPECT_EQ(eager_blocks != 0, faults.make().eager_chance != 0 && eager_sends);
}

INSTANTIATE_TEST_SUITE_P(Simulation, Schedules,
                         ::testing::Combine(::testing::ValuesIn(every_algorithm()),
                                            ::testing::Values(Faults{"none", fabric::sim::no_faults, seeds(160)},
                                                              Faults{"delays", fabric::sim::delays, seeds(320)},
                                                              Faults{"crashes", fabric::sim::crashes, seeds(560)},
                                                              Faults{"all", fabric::sim::all_faults, seeds(560)})),
                         [](const auto& parameter) {
                           return std::string(name_of(std::get<0>(parameter.param))) + "_" +
                                  std::get<1>(parameter.param).name;
                         });

TEST(Simulation, ASeedIsAReplay) {
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

}  // namespace
}  // namespace outrigger::sim
