// Members whose calls wrongly differ: somebody notices it, or all are stuck, which their waiters must see.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "local_memory.hpp"
#include "random_calls.hpp"

namespace outrigger::intranode {
namespace {

using namespace std::chrono_literals;

// Ends a wait when another member has ended, or all seem to be stuck.
struct ShortWaiter final : Waiter {
  explicit ShortWaiter(std::atomic<std::uint32_t>& ended)
      : Waiter({.spins = 20, .yields = 2000, .sleep = 1ms, .patience = 20ms}), done(ended) {}
  bool overdue(const Late& late) override { return late.has_come() || (done.load() == 0 && late.waited < 1s); }
  std::atomic<std::uint32_t>& done;
};

using Call = std::function<Outcome(Team&)>;

// How many have returned well.
struct Completed {
  std::atomic<std::size_t> calls = 0;
  std::atomic<std::size_t> members = 0;  // all that they do
};

// The differences that members find when each makes its call, then some barriers.
std::vector<std::optional<Difference>> found_by(const std::vector<Call>& calls, Completed& completed,
                                                const std::optional<Branches>& branches = std::nullopt) {
  const auto size = static_cast<std::uint32_t>(calls.size());
  const UniqueFd fd = ControlArea::create(size).value();
  const ControlArea area = ControlArea::attach(fd.get(), size).value();
  std::atomic<std::uint32_t> ended = 0;
  std::vector<std::optional<Difference>> found(size);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ShortWaiter waiter(ended);
      Team team(area, rank, waiter);
      LocalMemory memory(size, {});
      if (branches) team.divide(*branches);
      ASSERT_EQ(team.open(memory), Outcome::done);
      Outcome outcome = calls[rank](team);
      if (outcome == Outcome::done) completed.calls.fetch_add(1);
      for (int i = 0; outcome == Outcome::done && i < 4; ++i) outcome = team.barrier();
      if (outcome == Outcome::done) completed.members.fetch_add(1);
      found[rank] = team.difference();
      ended.fetch_add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

std::vector<std::optional<Difference>> found_by(const std::vector<Call>& calls) {
  Completed completed;
  return found_by(calls, completed);
}

bool is_noticed(const std::vector<Call>& calls, bool may_be_stuck = false) {
  Completed completed;
  const auto found = found_by(calls, completed);
  return std::ranges::any_of(found, [](const auto& difference) { return difference.has_value(); }) ||
         (may_be_stuck && completed.calls.load() == 0);
}

Bytes memory(std::size_t bytes) {
  return Bytes(bytes, std::byte{1});
}

Call broadcast(std::size_t bytes, std::uint32_t root) {
  return [=](Team& team) {
    Bytes buffer = memory(bytes);
    return team.broadcast(buffer, root);
  };
}
Call gather(std::size_t bytes, std::uint32_t root) {
  return [=](Team& team) {
    const Bytes mine = memory(bytes);
    Bytes into(bytes * team.size());
    return team.gather(mine, Blocks::regular(into.data(), bytes), root);
  };
}
Call scatter(std::size_t bytes, std::uint32_t root) {
  return [=](Team& team) {
    Bytes mine(bytes);
    Bytes from = memory(bytes * team.size());
    return team.scatter(Blocks::regular(from.data(), bytes), mine, root);
  };
}
Call alltoall(std::size_t bytes) {
  return [=](Team& team) {
    Bytes from = memory(bytes * team.size());
    Bytes into(from.size());
    return team.alltoall(Blocks::regular(from.data(), bytes), Blocks::regular(into.data(), bytes));
  };
}
Call allgather(std::size_t bytes) {
  return [=](Team& team) {
    const Bytes mine = memory(bytes);
    Bytes into(bytes * team.size());
    return team.allgather(mine, Blocks::regular(into.data(), bytes));
  };
}
Call allreduce(std::size_t bytes) {
  return [=](Team& team) {
    const Bytes mine(bytes);
    Bytes into(bytes);
    const SumOrder order(SumTree::linear(team.size()));
    return team.allreduce(mine, into.data(), OrderCombine(kDoubleSum, order));
  };
}

Call reduce(std::size_t bytes, std::uint32_t root) {
  return [=](Team& team) {
    const Bytes mine(bytes);
    Bytes into(bytes);
    const SumOrder order(SumTree::balanced(team.size()));
    return team.reduce(mine, into.data(), OrderCombine(kDoubleSum, order), root);
  };
}
Call barrier() {
  return [](Team& team) { return team.barrier(); };
}

// A member waits only for few others there. It may be stuck when they are in a later call.
TEST(DifferingCallsTest, NotAllMembersOfBranchesGoOn) {
  const std::vector<Call> all{broadcast(24, 0), allgather(24), allreduce(24), reduce(24, 0), barrier()};
  std::size_t noticed = 0;
  for (std::size_t one = 0; one < all.size(); ++one) {
    for (std::size_t member = 0; member < 4; ++member) {
      std::vector<Call> calls(4, all[one]);
      calls[member] = all[(one + member + 1) % all.size()];
      Completed completed;
      const auto found = found_by(calls, completed, Branches::in_a_row(4, 2));
      if (std::ranges::any_of(found, [](const auto& difference) { return difference.has_value(); })) ++noticed;
      EXPECT_LT(completed.members.load(), calls.size()) << one << ", but another one at " << member;
    }
  }
  EXPECT_GT(noticed, 0U);
}

// The root of a broadcast does not wait, and goes on to the next call.
TEST(DifferingCallsTest, AMemberThatLendsItsBlockNoticesAnotherCall) {
  const auto found = found_by({broadcast(24, 0), gather(std::size_t{1} << 20, 0)});
  EXPECT_TRUE(found[1].has_value());
}

TEST(DifferingCallsTest, AnotherCollectiveIsNoticed) {
  const std::vector<Call> all{broadcast(24, 0), gather(24, 0), scatter(24, 0), alltoall(24),
                              allgather(24),    allreduce(24), barrier()};
  for (std::size_t one = 0; one < all.size(); ++one) {
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (one != other) {
        EXPECT_TRUE(is_noticed({all[one], all[other]}, true)) << one << " and " << other;
      }
    }
  }
}

TEST(DifferingCallsTest, AnotherRootIsNoticed) {
  EXPECT_TRUE(is_noticed({broadcast(24, 0), broadcast(24, 1)}));
  EXPECT_TRUE(is_noticed({scatter(24, 0), scatter(24, 1), scatter(24, 1)}));
  EXPECT_TRUE(is_noticed({broadcast(100'000, 2), broadcast(100'000, 1), broadcast(100'000, 1)}, true));
  EXPECT_TRUE(is_noticed({gather(24, 0), gather(24, 1)}, true));
}

TEST(DifferingCallsTest, AnotherSizeIsNoticed) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{70'000}, std::size_t{600'000}}) {
    for (const std::size_t other : {std::size_t{0}, bytes - 8, bytes + 8, 3 * bytes}) {
      EXPECT_TRUE(is_noticed({broadcast(bytes, 0), broadcast(other, 0)})) << bytes << " and " << other;
      EXPECT_TRUE(is_noticed({gather(bytes, 0), gather(other, 0)})) << bytes << " and " << other;
      EXPECT_TRUE(is_noticed({scatter(bytes, 0), scatter(other, 0)})) << bytes << " and " << other;
      EXPECT_TRUE(is_noticed({alltoall(bytes), alltoall(other)})) << bytes << " and " << other;
      EXPECT_TRUE(is_noticed({allgather(bytes), allgather(other)})) << bytes << " and " << other;
      EXPECT_TRUE(is_noticed({allreduce(bytes), allreduce(other)})) << bytes << " and " << other;
    }
  }
}

// Calls of these sizes have the same word.
TEST(DifferingCallsTest, NothingIsWrittenBeyondABlock) {
  constexpr std::size_t kShort = 524'288;
  constexpr std::size_t kLong = 2'621'444;
  ASSERT_TRUE(CallWord(CollectiveCall::bcast, 0, kShort).has_bytes(kLong));
  EXPECT_TRUE(is_noticed({broadcast(kLong, 0), broadcast(kShort, 0)}));
  EXPECT_TRUE(is_noticed({scatter(kLong, 0), scatter(kShort, 0)}));
  EXPECT_TRUE(is_noticed({gather(kShort, 0), gather(kLong, 0)}));
}

// Lengths of a v-form's blocks that the two ends of a pair know differently.
struct Lists {
  explicit Lists(std::vector<std::uint64_t> lengths) : bytes(std::move(lengths)) {
    for (const std::uint64_t length : bytes) {
      offsets.push_back(total);
      total += length;
    }
    buffer = memory(total);
  }
  [[nodiscard]] Blocks blocks() { return Blocks::irregular(buffer.data(), bytes.data(), offsets.data()); }
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint64_t> offsets;
  std::uint64_t total = 0;
  Bytes buffer;
};

Call gatherv(std::size_t mine, const std::vector<std::uint64_t>& all) {
  return [=](Team& team) {
    const Bytes sent = memory(mine);
    Lists into(all);
    return team.gatherv(sent, into.blocks(), 0);
  };
}
Call scatterv(std::size_t mine, const std::vector<std::uint64_t>& all) {
  return [=](Team& team) {
    Bytes received(mine);
    Lists from(all);
    return team.scatterv(from.blocks(), received, 0);
  };
}
Call alltoallv(const std::vector<std::uint64_t>& out, const std::vector<std::uint64_t>& in) {
  return [=](Team& team) {
    Lists from(out);
    Lists into(in);
    return team.alltoallv(from.blocks(), into.blocks());
  };
}
Call allgatherv(std::size_t mine, const std::vector<std::uint64_t>& all) {
  return [=](Team& team) {
    const Bytes sent = memory(mine);
    Lists into(all);
    return team.allgather(sent, into.blocks());
  };
}

TEST(DifferingCallsTest, LengthsOfAPairAreNoticed) {
  struct Pair {
    std::size_t given;
    std::size_t expected;
  };
  for (const auto& [given, expected] : {Pair{8, 0}, Pair{0, 8}, Pair{8, 16}, Pair{16, 8}, Pair{200'000, 8},
                                        Pair{8, 200'000}, Pair{200'000, 0}, Pair{600'000, 700'000}}) {
    // Another member's block may be longer than either.
    for (const std::uint64_t third : {std::uint64_t{4}, std::uint64_t{300'000}}) {
      EXPECT_TRUE(is_noticed({gatherv(4, {4, expected, third}), gatherv(given, {}), gatherv(third, {})}))
          << given << ", " << expected << ", " << third;
      EXPECT_TRUE(is_noticed({scatterv(4, {4, given, third}), scatterv(expected, {}), scatterv(third, {})}))
          << given << ", " << expected << ", " << third;
      EXPECT_TRUE(is_noticed({alltoallv({4, given, third}, {4, 0, 0}), alltoallv({0, 4, third}, {expected, 4, 0}),
                              alltoallv({0, 0, 4}, {third, third, 4})}))
          << given << ", " << expected << ", " << third;
      EXPECT_TRUE(is_noticed({allgatherv(given, {expected, third}), allgatherv(third, {expected, third})}))
          << given << ", " << expected << ", " << third;
    }
  }
}

TEST(DifferingCallsTest, AMemberMayGetLessOfItselfThanItHasRoomFor) {
  EXPECT_FALSE(is_noticed({gatherv(4, {8, 8}), gatherv(8, {})}));
  EXPECT_TRUE(is_noticed({gatherv(12, {8, 8}), gatherv(8, {})}));
  EXPECT_FALSE(is_noticed({scatterv(8, {4, 8}), scatterv(8, {})}));
  EXPECT_TRUE(is_noticed({scatterv(8, {12, 8}), scatterv(8, {})}));
  EXPECT_FALSE(is_noticed({alltoallv({4, 8}, {8, 8}), alltoallv({8, 8}, {8, 8})}));
}

TEST(DifferingCallsTest, LongBlocksAreLikeShortOnes) {
  constexpr std::size_t kLong = 3 * kDirectBytes;
  constexpr std::size_t kShort = kDirectBytes + 8;
  EXPECT_FALSE(is_noticed({scatterv(kLong, {kShort, kLong}), scatterv(kLong, {})}));
  EXPECT_FALSE(is_noticed({alltoallv({0, kLong}, {8, kLong}), alltoallv({kLong, kLong}, {kLong, kLong})}));
  const auto gather_of = [](std::size_t own) {
    return [own](Team& team) {
      const Bytes mine = memory(own);
      Bytes into(kLong * team.size());
      const Outcome outcome = team.gather(mine, Blocks::regular(into.data(), kLong), 0);
      if (team.rank() != 0) return outcome;
      EXPECT_EQ(std::ranges::count(into, std::byte{1}), static_cast<std::ptrdiff_t>(own + kLong));
      return outcome;
    };
  };
  EXPECT_FALSE(is_noticed({gather_of(kShort), gather_of(kLong)}));
  const auto allgather_of = [](std::size_t own) {
    return [own](Team& team) {
      const Bytes mine = memory(own);
      Bytes into(kLong * team.size());
      return team.allgather(mine, Blocks::regular(into.data(), kLong));
    };
  };
  EXPECT_TRUE(is_noticed({allgather_of(kLong), allgather_of(kShort)}));
  for (const std::size_t sent : {kShort, kDirectBytes / 2}) {
    const Call differs = [sent](Team& team) {
      Bytes from = memory(sent * team.size());
      Bytes into(2 * sent * team.size());
      return team.alltoall(Blocks::regular(from.data(), sent), Blocks::regular(into.data(), 2 * sent));
    };
    EXPECT_TRUE(is_noticed({alltoall(sent), differs}));
  }
}

TEST(DifferingCallsTest, MessagesNameMembersAndWhatEachDoes) {
  const auto found = found_by({broadcast(24, 0), broadcast(32, 0)});
  ASSERT_TRUE(found[1]);
  EXPECT_EQ(found[1]->description(1),
            "rank 1 calls MPI_Bcast of 32 bytes with root 0, and rank 0 calls MPI_Bcast of 24 bytes with root 0");
  EXPECT_TRUE(found[1]->is_of_sizes());
  const auto lengths = found_by({scatterv(4, {4, 9}), scatterv(8, {})});
  ASSERT_TRUE(lengths[1]);
  EXPECT_EQ(lengths[1]->description(1),
            "rank 0 and rank 1 disagree in MPI_Scatterv with root 0: one sends the other 9 bytes, which expects 8");
}

TEST(CallWordTest, SizesAreTold) {
  const CallWord word(CollectiveCall::bcast, 3, CallWord::kMostExactBytes);
  EXPECT_EQ(word.description(), "MPI_Bcast of 512 KiB or more with root 3");
  EXPECT_FALSE(word.is_same_call(CallWord(CollectiveCall::bcast, 3, 2 * CallWord::kMostExactBytes)));
  EXPECT_TRUE(word.tagged(7).by_ranks(true).is_by_ranks());
  EXPECT_EQ(word.tagged(3).ahead_of(word.tagged(0xFFFFFFFFU)), 4);
}

}  // namespace
}  // namespace outrigger::intranode
