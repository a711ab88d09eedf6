// The choice of copier and lane of a block within a node, as a table; docs/inside/memory.md describes it.
#include "copy/policy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <string>

namespace outrigger::copy {

void PrintTo(Lane lane, std::ostream* out) {
  constexpr std::array kNames{"direct", "xpmem", "cma", "lender", "relay"};
  *out << kNames.at(static_cast<std::size_t>(lane));
}

namespace {

using namespace std::chrono_literals;

constexpr Memory kMapped = Memory::mapped;
constexpr Memory kAttachable = Memory::attachable;
constexpr Memory kPrivate = Memory::private_memory;

struct Row {
  Memory from;
  Memory to;
  Lane between_ranks;  // with a lender
  Lane within_one;     // the same for a rank's own block
  Lane by_service;     // without a lender
};

constexpr std::array kTable{
    Row{kMapped, kMapped, Lane::direct, Lane::direct, Lane::direct},
    Row{kMapped, kAttachable, Lane::xpmem, Lane::xpmem, Lane::xpmem},
    Row{kMapped, kPrivate, Lane::cma, Lane::lender, Lane::cma},
    Row{kAttachable, kMapped, Lane::xpmem, Lane::xpmem, Lane::xpmem},
    Row{kAttachable, kAttachable, Lane::xpmem, Lane::xpmem, Lane::xpmem},
    Row{kAttachable, kPrivate, Lane::lender, Lane::lender, Lane::relay},
    Row{kPrivate, kMapped, Lane::cma, Lane::lender, Lane::cma},
    Row{kPrivate, kAttachable, Lane::lender, Lane::lender, Lane::relay},
    Row{kPrivate, kPrivate, Lane::lender, Lane::lender, Lane::relay},
};

TEST(Policy, LaneByMemoryAndLender) {
  for (const Row& row : kTable) {
    const std::string ends =
        std::to_string(static_cast<int>(row.from)) + " to " + std::to_string(static_cast<int>(row.to));
    EXPECT_EQ(lane_of(row.from, row.to, false, true), row.between_ranks) << ends;
    EXPECT_EQ(lane_of(row.from, row.to, true, true), row.within_one) << ends;
    EXPECT_EQ(lane_of(row.from, row.to, false, false), row.by_service) << ends;
    EXPECT_EQ(lane_of(row.from, row.to, true, false), row.by_service) << ends;
  }
}

struct Share {
  CoreShare core;
  Lenders lenders;
  bool asked_when_all_wait_at_once;
  bool asked_late_with_much_left;
  bool always_asked;
  bool lent_by_a_sleep;
};

constexpr std::array kShares{
    Share{CoreShare::own, Lenders::copiers, true, true, false, false},
    Share{CoreShare::shared, Lenders::copiers, true, true, false, true},
    Share{CoreShare::none, Lenders::waiting_ranks, true, true, true, true},
    Share{CoreShare::idle, Lenders::none, false, false, false, true},
};

TEST(Policy, WhoLendsByTheServiceProcesssCore) {
  for (const Share& row : kShares) {
    const Lenders lenders = lenders_with(row.core);
    EXPECT_EQ(lenders, row.lenders) << static_cast<int>(row.core);
    EXPECT_EQ(ranks_are_asked(lenders, Waits::at_once, 1), row.asked_when_all_wait_at_once);
    EXPECT_EQ(ranks_are_asked(lenders, Waits::late, kLeastBytesForLateHelp), row.asked_late_with_much_left);
    EXPECT_EQ(ranks_are_asked(lenders, Waits::late, kLeastBytesForLateHelp - 1), row.always_asked);
    EXPECT_EQ(ranks_are_asked(lenders, Waits::no, kLeastBytesForLateHelp), row.always_asked) << "one computes";
    EXPECT_EQ(sleeps_while_lending(row.core), row.lent_by_a_sleep);
  }
}

TEST(Policy, WhatIsTooLittleIsCopiedWithoutALender) {
  constexpr std::uint64_t kKiB = 1024;
  EXPECT_FALSE(wants_lender(16 * kKiB - 1));
  EXPECT_TRUE(wants_lender(16 * kKiB));
  EXPECT_FALSE(worth_lending(Lenders::copiers, 64 * kKiB - 1));
  EXPECT_TRUE(worth_lending(Lenders::copiers, 64 * kKiB));
  EXPECT_FALSE(worth_lending(Lenders::waiting_ranks, 16 * kKiB - 1));
  EXPECT_TRUE(worth_lending(Lenders::waiting_ranks, 16 * kKiB));
}

TEST(Policy, OwnBlocksAreTheRanksWhereTheyAreSmallOrNobodyElseCan) {
  EXPECT_TRUE(rank_copies_own_block(1, true));
  EXPECT_TRUE(rank_copies_own_block(kLeastBytesToLend - 1, true));
  EXPECT_FALSE(rank_copies_own_block(kLeastBytesToLend, true));
  EXPECT_TRUE(rank_copies_own_block(kLeastBytesToLend, false));
  EXPECT_TRUE(rank_copies_own_block(std::uint64_t{1} << 40, false));
}

TEST(Policy, AtOnceIsNoLongerThanAnEighthOfTheCopies) {
  EXPECT_EQ(at_once_after(0), 10us);
  EXPECT_EQ(at_once_after(40'000), 11us);
  EXPECT_EQ(at_once_after(4'000'000'000), 10us + 100ms);
}

TEST(Policy, RanksThatWaitComeBeforeTheCardOfADpu) {
  for (const std::uint64_t card : {std::uint64_t{0}, kMostBytesByCard}) {
    for (const Offer other : {Offer::none, Offer::copier, Offer::waiting}) {
      EXPECT_EQ(host_mover_of(Offer::waiting, other, true, card), HostMover::destination);
    }
    EXPECT_EQ(host_mover_of(Offer::none, Offer::waiting, true, card), HostMover::source);
    EXPECT_EQ(host_mover_of(Offer::copier, Offer::waiting, true, card), HostMover::source);
  }
}

TEST(Policy, AChunkOfRanksThatMayWaitIsLeftToThem) {
  for (const Offer offer : {Offer::none, Offer::copier}) {
    EXPECT_EQ(host_mover_of(offer, offer, true, 0), HostMover::none);
  }
}

TEST(Policy, TheCardMovesLittleAtATime) {
  EXPECT_EQ(host_mover_of(Offer::none, Offer::none, false, kMostBytesByCard - 1), HostMover::card);
  EXPECT_EQ(host_mover_of(Offer::none, Offer::none, false, kMostBytesByCard), HostMover::none);
}

TEST(Policy, ACopierComesBeforeTheCardOnceRanksCompute) {
  EXPECT_EQ(host_mover_of(Offer::copier, Offer::copier, false, 0), HostMover::destination);
  EXPECT_EQ(host_mover_of(Offer::none, Offer::copier, false, 0), HostMover::source);
}

}  // namespace
}  // namespace outrigger::copy
