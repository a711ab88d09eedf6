#include "engine/registry.hpp"

#include <gtest/gtest.h>

#include <array>

namespace outrigger::engine {
namespace {

struct Row {
  Collective collective;
  Algorithm algorithm;
};

// The next free algorithm number.
constexpr auto kNew = static_cast<Algorithm>(kAlgorithms.size() + 1);

TEST(RegistryTest, EveryAlgorithmOfTheTablesIsBuiltIn) {
  for (const CollectiveRow& row : kCollectives) {
    for (const Algorithm algorithm : row.algorithms) {
      EXPECT_NE(built_in_algorithms().find(row.collective, algorithm), nullptr)
          << name_of(row.collective) << ' ' << name_of(algorithm);
    }
  }
}

TEST(RegistryTest, AnAlgorithmWithoutARowIsFound) {
  constexpr std::array kRows{Row{Collective::ibcast, Algorithm::flat}, Row{Collective::ibcast, kNew}};
  static_assert(first_unnamed(kRows) == 1);
  constexpr std::array kOfOthers{Row{Collective::ibcast, Algorithm::tree}};
  static_assert(first_unnamed(kOfOthers) == 0);
}

TEST(RegistryTest, ARowWithoutItsAlgorithmIsFound) {
  constexpr std::array kRows{Row{Collective::ialltoall, Algorithm::ring_pull},
                             Row{Collective::ialltoall, Algorithm::scatter_dest}};
  static_assert(first_unlisted(kRows) == index_of(Collective::ialltoallv));
}

TEST(RegistryTest, ANameWithoutACollectiveIsFound) {
  constexpr std::array kNames{AlgorithmName{Algorithm::flat, "flat"}, AlgorithmName{kNew, "new"}};
  static_assert(first_unserved(kNames, kCollectives) == 1);
}

}  // namespace
}  // namespace outrigger::engine
