// The simulation finds planted bugs, and prints the seed.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>

#include "planted.hpp"
#include "sim/simulation.hpp"

namespace outrigger::sim {
namespace {

struct Found {
  std::uint64_t seed = 0;
  std::string invariant;
};

std::optional<Found> search(engine::AlgorithmFunction bug, std::uint64_t seeds, SimulationOptions options) {
  engine::Registry registry;
  for (const CollectiveRow& row : kCollectives) {
    if (has_algorithm(row.collective, options.algorithm)) registry.add(row.collective, options.algorithm, bug);
  }
  options.registry = &registry;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    options.seed = seed;
    const SimulationResult result = simulate(options);
    if (result.broken) return Found{seed, *result.broken};
  }
  return std::nullopt;
}

void report(const char* bug, const Found& found) {
  std::printf("%s: found with seed %llu: %s\n", bug, static_cast<unsigned long long>(found.seed),
              found.invariant.c_str());
}

TEST(PlantedBugs, AnEarlyReleaseIsFound) {
  SimulationOptions options;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_early_release, 50, options);
  ASSERT_TRUE(found.has_value());
  report("early release", *found);
  EXPECT_NE(found->invariant.find("released too early"), std::string::npos) << found->invariant;
}

TEST(PlantedBugs, ALostMarkIsFoundAtOnce) {
  SimulationOptions options;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_lost_mark, 50, options);
  ASSERT_TRUE(found.has_value());
  report("lost mark", *found);
  EXPECT_NE(found->invariant.find("not marked"), std::string::npos) << found->invariant;
}

// Without checking the marks themselves: a crash after the lost mark shows it.
TEST(PlantedBugs, LostMarkIsFoundAfterACrash) {
  SimulationOptions options;
  options.check_marks_at_completion = false;
  options.faults = fabric::sim::delays();
  EXPECT_FALSE(search(planted_lost_mark, 100, options).has_value()) << "without crashes a mark is never read";
  options.faults = fabric::sim::crashes();
  const std::optional<Found> found = search(planted_lost_mark, 500, options);
  ASSERT_TRUE(found.has_value());
  report("lost mark, by its consequences", *found);
}

TEST(PlantedBugs, ALeakedWindowSlotIsFound) {
  SimulationOptions options;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_leaked_slot, 50, options);
  ASSERT_TRUE(found.has_value());
  report("leaked window slot", *found);
  EXPECT_NE(found->invariant.find("window slot"), std::string::npos) << found->invariant;
}

TEST(PlantedBugs, WaitingForALateRankWithoutNeedIsFound) {
  SimulationOptions options;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_idle_until_all, 200, options);
  ASSERT_TRUE(found.has_value());
  report("idle until all have come", *found);
  EXPECT_NE(found->invariant.find("late rank without need"), std::string::npos) << found->invariant;
}

TEST(PlantedBugs, BlockThatReachesANodeTwiceIsFound) {
  SimulationOptions options;
  options.algorithm = Algorithm::node_pull;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_sibling_not_asked, 50, options);
  ASSERT_TRUE(found.has_value());
  report("sibling not asked", *found);
  EXPECT_NE(found->invariant.find("twice"), std::string::npos) << found->invariant;
}

TEST(PlantedBugs, HolderThatIsReleasedEarlyIsFound) {
  SimulationOptions options;
  options.algorithm = Algorithm::node_pull;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_let_go_early, 50, options);
  ASSERT_TRUE(found.has_value());
  report("let go early", *found);
}

TEST(PlantedBugs, SumsThatDependOnArrivalAreFound) {
  SimulationOptions options;
  options.algorithm = Algorithm::sliced_pull;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_order_of_arrival, 100, options);
  ASSERT_TRUE(found.has_value());
  report("order of arrival", *found);
  EXPECT_NE(found->invariant.find("bytes"), std::string::npos) << found->invariant;
}

TEST(PlantedBugs, ContributionThatIsReleasedEarlyIsFound) {
  SimulationOptions options;
  options.algorithm = Algorithm::sliced_pull;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_contribution_released_early, 50, options);
  ASSERT_TRUE(found.has_value());
  report("contribution released early", *found);
  // Or its owner has reused memory that is still to be read.
  const auto says = [&](const char* what) { return found->invariant.find(what) != std::string::npos; };
  EXPECT_TRUE(says("released too early") || says("memory not accessible")) << found->invariant;
}

TEST(PlantedBugs, ResultAnnouncedBeforeItExistsIsFound) {
  SimulationOptions options;
  options.algorithm = Algorithm::chain;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_prefix_offered_early, 50, options);
  ASSERT_TRUE(found.has_value());
  report("offered early", *found);
  EXPECT_NE(found->invariant.find("bytes"), std::string::npos) << found->invariant;
}

TEST(PlantedBugs, LeavingABarrierEarlyIsFound) {
  SimulationOptions options;
  options.algorithm = Algorithm::tree;
  options.faults = fabric::sim::delays();
  const std::optional<Found> found = search(planted_barrier_of_a_branch, 50, options);
  ASSERT_TRUE(found.has_value());
  report("leaving a barrier early", *found);
  EXPECT_NE(found->invariant.find("leaves a barrier"), std::string::npos) << found->invariant;
}

}  // namespace
}  // namespace outrigger::sim
