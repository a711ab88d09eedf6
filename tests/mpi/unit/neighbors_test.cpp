#include "mpi/communicators/neighbors.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "fake_mpi.hpp"

namespace outrigger::mpi::test {
namespace {

using Numbers = std::vector<std::uint32_t>;

class NeighborsOf : public ::testing::Test {
 protected:
  FakeMpi mpi_;
  KnownNeighbors known_;
};

TEST_F(NeighborsOf, ACommunicatorWithoutTopologyAreNone) {
  const MPI_Comm comm = mpi_.without_topology();
  EXPECT_EQ(known_.of(comm), nullptr);
  EXPECT_EQ(known_.of(comm), nullptr);
  EXPECT_EQ(mpi_.topology_questions(), 1);
}

TEST_F(NeighborsOf, AGridAreTheOneBelowAndTheOneAboveInEachDimension) {
  const Neighbors* neighbors = known_.of(mpi_.grid({{5, 3}, {MPI_PROC_NULL, 4}}));
  ASSERT_NE(neighbors, nullptr);
  EXPECT_EQ(neighbors->topology, Topology::cartesian);
  for (const NeighborSide* side : {&neighbors->destinations, &neighbors->sources_in(NeighborOrder::in_turn)}) {
    EXPECT_EQ(side->listed, 4U) << "places of MPI_PROC_NULL count";
    EXPECT_EQ(side->ranks, (Numbers{3, 4, 5}));
    EXPECT_EQ(side->places, (Numbers{1, 3, 0}));
    EXPECT_EQ(side->first, (Numbers{0, 1, 2, 3}));
    EXPECT_FALSE(side->repeats());
  }
}

// A periodic dimension of two: the same rank is below and above.
TEST_F(NeighborsOf, AGridMayBeOneTwice) {
  const MPI_Comm comm = mpi_.grid({{1, 1}, {2, 2}});
  const Neighbors* neighbors = known_.of(comm);
  ASSERT_NE(neighbors, nullptr);
  EXPECT_EQ(known_.of(comm), neighbors);
  EXPECT_EQ(mpi_.topology_questions(), 1);
  const NeighborSide& side = neighbors->destinations;
  EXPECT_TRUE(side.repeats());
  EXPECT_EQ(side.ranks, (Numbers{1, 2}));
  EXPECT_EQ(side.first, (Numbers{0, 2, 4}));
  EXPECT_EQ(side.places, (Numbers{0, 1, 2, 3}));
  EXPECT_EQ((Numbers{side.rank_of(0), side.rank_of(1), side.rank_of(2), side.rank_of(3)}), (Numbers{1, 1, 2, 2}));
  EXPECT_EQ(neighbors->sources_in(NeighborOrder::in_turn).places, (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(neighbors->sources_in(NeighborOrder::reversed).places, (Numbers{1, 0, 3, 2}));
  EXPECT_EQ(neighbors->sources_in(NeighborOrder::opposite).places, (Numbers{1, 0, 3, 2}));
}

TEST_F(NeighborsOf, AGraphAreOnBothSides) {
  const Neighbors* neighbors = known_.of(mpi_.graph({2, 0, 2}));
  ASSERT_NE(neighbors, nullptr);
  EXPECT_EQ(neighbors->topology, Topology::graph);
  EXPECT_EQ(neighbors->destinations.ranks, (Numbers{0, 2}));
  EXPECT_EQ(neighbors->destinations.places, (Numbers{1, 0, 2}));
  EXPECT_EQ(neighbors->sources_in(NeighborOrder::reversed).places, (Numbers{1, 2, 0}));
}

TEST_F(NeighborsOf, ADistributedGraphAreOthersOnEachSide) {
  const Neighbors* neighbors = known_.of(mpi_.distributed_graph({4}, {6, 5}));
  ASSERT_NE(neighbors, nullptr);
  EXPECT_EQ(neighbors->topology, Topology::distributed_graph);
  EXPECT_EQ(neighbors->sources_in(NeighborOrder::in_turn).ranks, (Numbers{4}));
  EXPECT_EQ(neighbors->destinations.ranks, (Numbers{5, 6}));
  EXPECT_EQ(neighbors->destinations.places, (Numbers{1, 0}));
}

TEST_F(NeighborsOf, ADistributedGraphMayBeNone) {
  const Neighbors* neighbors = known_.of(mpi_.distributed_graph({}, {}));
  ASSERT_NE(neighbors, nullptr) << "it has a topology all the same";
  EXPECT_TRUE(neighbors->destinations.ranks.empty());
  EXPECT_EQ(neighbors->destinations.first, (Numbers{0}));
}

}  // namespace
}  // namespace outrigger::mpi::test
