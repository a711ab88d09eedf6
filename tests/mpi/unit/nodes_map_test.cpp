#include "mpi/intranode/nodes_map.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace outrigger::mpi::test {
namespace {

using Numbers = std::vector<std::uint32_t>;

TEST(NodesMap, NodesAreNumberedInTheOrderOfTheirFirstRanks) {
  const NodesMap map(Numbers{7, 7, 3, 3, 3, 0});
  EXPECT_EQ(map.ranks(), 6U);
  EXPECT_EQ(map.nodes(), 3U);
  EXPECT_EQ(map.largest(), 3U);
  EXPECT_EQ(map.ranks_of(0), (Numbers{0, 1}));
  EXPECT_EQ(map.ranks_of(1), (Numbers{2, 3, 4}));
  EXPECT_EQ(map.node_of(5), 2U);
  EXPECT_EQ(map.local_of(4), 2U);
  EXPECT_TRUE(map.is_sorted());
  for (std::uint32_t rank = 0; rank < map.ranks(); ++rank) EXPECT_EQ(map.place_of(rank), rank);
}

TEST(NodesMap, RanksOfANodeNeedNotBeNeighbors) {
  const NodesMap map(Numbers{1, 0, 1, 0, 1});
  EXPECT_FALSE(map.is_sorted());
  EXPECT_EQ(map.ranks_of(0), (Numbers{0, 2, 4}));
  EXPECT_EQ(map.ranks_of(1), (Numbers{1, 3}));
  EXPECT_EQ(map.first_place_of(1), 3U);
  Numbers places;
  for (std::uint32_t rank = 0; rank < map.ranks(); ++rank) places.push_back(map.place_of(rank));
  EXPECT_EQ(places, (Numbers{0, 3, 1, 4, 2}));
}

TEST(NodesMap, ANodeThatComesTwiceIsNotSorted) {
  EXPECT_FALSE(NodesMap(Numbers{4, 5, 4}).is_sorted());
}

}  // namespace
}  // namespace outrigger::mpi::test
