#include "mpi/intranode/team_arguments.hpp"

#include <gtest/gtest.h>

#include <array>

namespace outrigger::mpi {
namespace {

TeamArguments neighbor_call(std::int64_t sent, std::int64_t received, bool on_grid) {
  TeamArguments call;
  call.call = CollectiveCall::neighbor_alltoall;
  call.on_grid = on_grid;
  call.send.count = sent;
  call.receive.count = received;
  call.send.shape =
      call.receive.shape = {.size = 1, .extent = 1, .first = 0, .dense = true, .predefined = true, .committed = true};
  return call;
}

// On a line of ranks, every second one may send 100 bytes and receive 3,000, and the others the reverse.
TEST(TeamArguments, KindsOnAGridAreAlikeOnAllRanks) {
  EXPECT_EQ(neighbor_call(100, 3000, true).key(2, 0), neighbor_call(3000, 100, true).key(2, 0));
}

TEST(TeamArguments, SizesOnAGridAreKindsOfTheirOwn) {
  EXPECT_NE(neighbor_call(100, 100, true).key(2, 0), neighbor_call(100'000, 100'000, true).key(2, 0));
}

// Parts of a graph that are not connected may have blocks of any size.
TEST(TeamArguments, SizesOnAGraphAreOneKind) {
  EXPECT_EQ(neighbor_call(100, 100, false).key(2, 0), neighbor_call(100'000, 100'000, false).key(2, 0));
}

// Counts say nothing there: other ranks have others.
TEST(TeamArguments, CallsWithListsHaveKindsByTheSizeThatRanksHaveSeen) {
  TeamArguments call = neighbor_call(8, 8, false);
  for (const CollectiveCall with_lists : {CollectiveCall::gatherv, CollectiveCall::scatterv, CollectiveCall::alltoallv,
                                          CollectiveCall::neighbor_alltoallv}) {
    call.call = with_lists;
    EXPECT_NE(call.key(2, 8), call.key(2, 100'000));
    TeamArguments longer = call;
    longer.send.count = longer.receive.count = 100'000;
    EXPECT_EQ(call.key(2, 8), longer.key(2, 8));
  }
}

TEST(TeamArguments, AllgathervHasKindsByItsCounts) {
  TeamArguments call = neighbor_call(0, 0, false);
  call.call = CollectiveCall::allgatherv;
  call.receive.listed = true;
  const std::array small{8, 0};
  const std::array large{100'000, 20};
  call.receive.counts = reinterpret_cast<Word>(small.data());
  const auto key = call.key(2, 0);
  call.send.count = 8;  // each rank has its own
  EXPECT_EQ(call.key(2, 0), key);
  call.receive.counts = reinterpret_cast<Word>(large.data());
  EXPECT_NE(call.key(2, 0), key);
}

}  // namespace
}  // namespace outrigger::mpi
