// Groups of threads: every call of group.h against plain references.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "local_store.hpp"

namespace outrigger {
namespace {

constexpr int kOk = OUTRIGGER_GROUP_OK;
using Words = std::vector<std::int64_t>;

outrigger_group_blocks regular(Words& words, std::size_t each) {
  return {.base = words.data(), .each = each * sizeof(std::int64_t), .bytes = nullptr, .offsets = nullptr};
}

Words filled(std::size_t length, std::int64_t start) {
  Words words(length);
  std::iota(words.begin(), words.end(), start);
  return words;
}

// A letter for each rank: the node on which it pretends to be.
class GroupTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string names;
    for (const char node : GetParam()) names += (names.empty() ? "" : ",") + std::string(1, node);
    pretend_nodes(names);
  }
  void TearDown() override { pretend_nodes(""); }

  [[nodiscard]] static std::uint32_t size() { return static_cast<std::uint32_t>(GetParam().size()); }
  static constexpr std::array<std::size_t, 5> kLengths{1, 3, 1000, 60'000, 200'000};
};

TEST_P(GroupTest, EveryRankGetsTheRootsBytes) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    for (const std::size_t length : kLengths) {
      for (std::uint32_t root = 0; root < size(); ++root) {
        Words words = filled(length, rank);
        ASSERT_EQ(outrigger_group_broadcast(group, words.data(), length * 8, root), kOk);
        ASSERT_EQ(words, filled(length, root));
      }
    }
  });
}

TEST_P(GroupTest, ReductionsOfIntegersAreExact) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    for (const std::size_t length : kLengths) {
      const Words mine(length, rank + 2);
      Words sum(length);
      ASSERT_EQ(outrigger_group_all_reduce(group, mine.data(), sum.data(), length, OUTRIGGER_GROUP_INT64,
                                           OUTRIGGER_GROUP_SUM),
                kOk);
      ASSERT_EQ(sum, Words(length, size() * (size() + 3) / 2));
      Words most = mine;
      ASSERT_EQ(outrigger_group_all_reduce(group, most.data(), most.data(), length, OUTRIGGER_GROUP_INT64,
                                           OUTRIGGER_GROUP_MAX),
                kOk);
      ASSERT_EQ(most, Words(length, size() + 1));
      Words least(length);
      ASSERT_EQ(outrigger_group_reduce(group, mine.data(), least.data(), length, OUTRIGGER_GROUP_INT64,
                                       OUTRIGGER_GROUP_MIN, size() - 1),
                kOk);
      if (rank == size() - 1) {
        ASSERT_EQ(least, Words(length, 2));
      }
    }
  });
}

float value_of(std::uint32_t rank) {
  return rank == 0 ? 1e8F : rank == 1 ? 1.0F : rank == 2 ? -1e8F : 0.25F;
}

// In the order of ranks on each node, and then in the order of nodes.
float sum_of_nodes(const std::string& nodes) {
  std::string letters;
  std::vector<float> sums;
  for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) {
    const std::size_t node = letters.find(nodes[rank]);
    if (node == std::string::npos) {
      letters += nodes[rank];
      sums.push_back(value_of(rank));
    } else {
      sums[node] += value_of(rank);
    }
  }
  return std::accumulate(sums.begin() + 1, sums.end(), sums.front());
}

// (big + small) + -big loses small, and other orders do not: all ranks must take the same order.
TEST_P(GroupTest, SumsAreInTheOrderOfRanks) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    for (const std::size_t length : kLengths) {
      const std::vector<float> mine(length, value_of(rank));
      std::vector<float> sum(length);
      ASSERT_EQ(outrigger_group_all_reduce(group, mine.data(), sum.data(), length, OUTRIGGER_GROUP_FLOAT32,
                                           OUTRIGGER_GROUP_SUM),
                kOk);
      ASSERT_EQ(sum, std::vector<float>(length, sum_of_nodes(GetParam())));
    }
  });
}

// Longer than one round, in place.
TEST(GroupSumsTest, LongSumsAreInTheOrderOfRanks) {
  constexpr std::size_t kLength = (std::size_t{5} << 20) + 1;
  run_group(3, [](outrigger_group* group, std::uint32_t rank) {
    std::vector<float> values(kLength, value_of(rank));
    for (std::size_t i = 0; i < kLength; i += 7) values[i] = static_cast<float>(i % 1000 + rank);
    ASSERT_EQ(outrigger_group_all_reduce(group, values.data(), values.data(), kLength, OUTRIGGER_GROUP_FLOAT32,
                                         OUTRIGGER_GROUP_SUM),
              kOk);
    std::vector<float> expected(kLength, sum_of_nodes("aaa"));
    for (std::size_t i = 0; i < kLength; i += 7) expected[i] = static_cast<float>(3 * (i % 1000) + 3);
    ASSERT_TRUE(values == expected);
  });
}

// In bfloat16, 256 + 1 = 256: only sums in float32 count the ones.
TEST_P(GroupTest, SixteenBitsAreSummedInThirtyTwo) {
  constexpr std::uint16_t k256 = 0x4380;
  constexpr std::uint16_t kOne = 0x3f80;
  run_group(size(), [&](outrigger_group* group, std::uint32_t rank) {
    std::vector<std::uint16_t> values(5000, rank == 0 ? k256 : kOne);
    ASSERT_EQ(outrigger_group_all_reduce(group, values.data(), values.data(), values.size(), OUTRIGGER_GROUP_BFLOAT16,
                                         OUTRIGGER_GROUP_SUM),
              kOk);
    // 257 and 259 are halfway, and go to the even one.
    const std::array<std::uint16_t, 5> expected{0, 0x4380, 0x4380, 0x4381, 0x4382};
    ASSERT_EQ(values, std::vector<std::uint16_t>(5000, expected[size()]));
  });
}

TEST_P(GroupTest, AnAverageIsTheSumDivided) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    std::vector<double> values(300, rank + 1.0);
    ASSERT_EQ(outrigger_group_all_reduce(group, values.data(), values.data(), values.size(), OUTRIGGER_GROUP_FLOAT64,
                                         OUTRIGGER_GROUP_AVERAGE),
              kOk);
    ASSERT_EQ(values, std::vector<double>(300, (size() + 1) / 2.0));
  });
}

TEST_P(GroupTest, BoolsAreCombinedLogically) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    const std::array<std::uint8_t, 3> mine{static_cast<std::uint8_t>(rank == 0), 1, 0};
    std::array<std::uint8_t, 3> result{};
    ASSERT_EQ(
        outrigger_group_all_reduce(group, mine.data(), result.data(), 3, OUTRIGGER_GROUP_BOOL, OUTRIGGER_GROUP_SUM),
        kOk);
    ASSERT_EQ(result, (std::array<std::uint8_t, 3>{1, 1, 0}));
    ASSERT_EQ(
        outrigger_group_all_reduce(group, mine.data(), result.data(), 3, OUTRIGGER_GROUP_BOOL, OUTRIGGER_GROUP_PRODUCT),
        kOk);
    ASSERT_EQ(result, (std::array<std::uint8_t, 3>{static_cast<std::uint8_t>(size() == 1), 1, 0}));
  });
}

TEST_P(GroupTest, BlocksGoWhereTheyBelong) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    for (const std::size_t length : kLengths) {
      const auto start_of = [&](std::uint32_t from, std::uint32_t to) {
        return std::int64_t{1'000'000} * from + std::int64_t{100'000} * to;
      };
      Words mine;
      Words exchanged;
      Words all;
      for (std::uint32_t other = 0; other < size(); ++other) {
        const Words to = filled(length, start_of(rank, other));
        const Words from = filled(length, start_of(other, rank));
        const Words each = filled(length, start_of(other, 0));
        mine.insert(mine.end(), to.begin(), to.end());
        exchanged.insert(exchanged.end(), from.begin(), from.end());
        all.insert(all.end(), each.begin(), each.end());
      }
      const std::uint64_t bytes = length * sizeof(std::int64_t);
      Words got(length * size());
      outrigger_group_blocks into = regular(got, length);
      const outrigger_group_blocks from = regular(mine, length);
      ASSERT_EQ(outrigger_group_all_gather(group, mine.data(), bytes, &into), kOk);
      ASSERT_EQ(got, all);
      ASSERT_EQ(outrigger_group_all_to_all(group, &from, &into), kOk);
      ASSERT_EQ(got, exchanged);
      got.assign(got.size(), 0);
      const std::uint32_t root = size() - 1;
      ASSERT_EQ(outrigger_group_gather(group, mine.data(), bytes, rank == root ? &into : nullptr, root), kOk);
      if (rank == root) {
        ASSERT_EQ(got, all);
      }
      Words one(length);
      ASSERT_EQ(outrigger_group_scatter(group, rank == root ? &from : nullptr, one.data(), bytes, root), kOk);
      ASSERT_EQ(one, filled(length, start_of(root, rank)));
    }
  });
}

// Rank i has i + j + 1 words for rank j, and one more for itself.
TEST_P(GroupTest, BlocksMayDifferInLength) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    Words mine;
    std::vector<std::uint64_t> bytes;
    std::vector<std::uint64_t> offsets;
    for (std::uint32_t other = 0; other < size(); ++other) {
      offsets.push_back(mine.size() * 8);
      const Words block = filled(rank + other + 1, 100 * rank + other);
      bytes.push_back(block.size() * 8);
      mine.insert(mine.end(), block.begin(), block.end());
    }
    Words got(mine.size());
    const outrigger_group_blocks from{mine.data(), 0, bytes.data(), offsets.data()};
    const outrigger_group_blocks into{got.data(), 0, bytes.data(), offsets.data()};
    ASSERT_EQ(outrigger_group_all_to_allv(group, &from, &into), kOk) << outrigger_group_last_error();
    for (std::uint32_t other = 0; other < size(); ++other) {
      const Words block(got.begin() + static_cast<std::ptrdiff_t>(offsets[other] / 8),
                        got.begin() + static_cast<std::ptrdiff_t>((offsets[other] + bytes[other]) / 8));
      ASSERT_EQ(block, filled(rank + other + 1, 100 * other + rank));
    }
  });
}

TEST_P(GroupTest, ReduceScatterGivesEachRankItsBlock) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    std::vector<std::uint64_t> counts;
    Words mine;
    for (std::uint32_t other = 0; other < size(); ++other) {
      counts.push_back(1000 * other + 1);
      mine.insert(mine.end(), counts.back(), other + 1);
    }
    Words got(counts[rank]);
    ASSERT_EQ(outrigger_group_reduce_scatter(group, mine.data(), got.data(), counts.data(), OUTRIGGER_GROUP_INT64,
                                             OUTRIGGER_GROUP_SUM),
              kOk);
    ASSERT_EQ(got, Words(counts[rank], (rank + 1) * size()));
  });
}

// The result begins where the contributions do, amid which the own block is.
TEST_P(GroupTest, ReduceScatterInPlaceKeepsTheOwnBlock) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    for (const std::uint64_t last : {std::uint64_t{7}, std::uint64_t{100'000}}) {
      std::vector<std::uint64_t> counts(size(), 1);
      counts.back() = last;
      Words words = filled(size() - 1 + last, 0);  // the same on all ranks
      ASSERT_EQ(outrigger_group_reduce_scatter(group, words.data(), words.data(), counts.data(), OUTRIGGER_GROUP_INT64,
                                               OUTRIGGER_GROUP_SUM),
                kOk);
      for (std::uint64_t i = 0; i < counts[rank]; ++i) {
        ASSERT_EQ(words[i], static_cast<std::int64_t>(size() * (rank + i)));
      }
    }
  });
}

// Longer than one round.
TEST(GroupSumsTest, LongReduceScatterInPlaceKeepsTheOwnBlock) {
  run_group(3, [](outrigger_group* group, std::uint32_t rank) {
    const std::vector<std::uint64_t> counts{100, 2'500'000, 1'000'000};
    const std::vector<std::int64_t> firsts{0, 100, 2'500'100};
    for (const bool in_place : {false, true}) {
      Words words = filled(3'500'100, rank);
      Words results(counts[rank]);
      std::int64_t* into = in_place ? words.data() : results.data();
      ASSERT_EQ(outrigger_group_reduce_scatter(group, words.data(), into, counts.data(), OUTRIGGER_GROUP_INT64,
                                               OUTRIGGER_GROUP_SUM),
                kOk);
      for (std::uint64_t i = 0; i < counts[rank]; ++i) {
        ASSERT_EQ(into[i], 3 * (firsts[rank] + static_cast<std::int64_t>(i)) + 3);
      }
    }
  });
}

// Only lengths count, not how a rank describes them.
TEST_P(GroupTest, AlltoallvTakesBothFormsOfBlocks) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    Words given = filled(size(), 100 * rank);
    Words taken(size());
    const std::vector<std::uint64_t> bytes(size(), 8);
    std::vector<std::uint64_t> offsets(size());
    for (std::uint32_t other = 0; other < size(); ++other) offsets[other] = other * 8;
    outrigger_group_blocks from = regular(given, 1);
    outrigger_group_blocks into = regular(taken, 1);
    if (rank == 0) {
      from = {.base = given.data(), .each = 0, .bytes = bytes.data(), .offsets = offsets.data()};
      into = {.base = taken.data(), .each = 0, .bytes = bytes.data(), .offsets = offsets.data()};
    }
    ASSERT_EQ(outrigger_group_all_to_allv(group, &from, &into), kOk) << outrigger_group_last_error();
    for (std::uint32_t other = 0; other < size(); ++other) ASSERT_EQ(taken[other], 100 * other + rank);
  });
}

// Messages in random order of lengths and tags, longer and shorter than a ring, received in another order.
TEST_P(GroupTest, MessagesArriveInOrderForEachTag) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    std::mt19937 random(7);  // the same on all ranks
    constexpr int kMessages = 60;
    constexpr std::int64_t kTags = 3;
    std::vector<std::vector<std::size_t>> lengths(kTags);
    std::vector<std::int64_t> tags;
    for (int i = 0; i < kMessages; ++i) {
      tags.push_back(static_cast<std::int64_t>(random() % kTags));
      lengths[static_cast<std::size_t>(tags.back())].push_back(random() % 5 == 0 ? random() % 40'000 : random() % 20);
    }
    std::vector<outrigger_group_request*> requests;
    std::vector<std::size_t> next(kTags);
    std::vector<Words> sent;
    sent.reserve(kMessages * size());
    for (const std::int64_t tag : tags) {
      const std::size_t length = lengths[static_cast<std::size_t>(tag)][next[static_cast<std::size_t>(tag)]++];
      for (std::uint32_t to = 0; to < size(); ++to) {
        sent.push_back(filled(length, 1000 * rank + static_cast<std::int64_t>(length)));
        requests.emplace_back();
        ASSERT_EQ(outrigger_group_isend(group, sent.back().data(), length * 8, to, tag, &requests.back()), kOk);
      }
    }
    for (std::int64_t tag = kTags - 1; tag >= 0; --tag) {
      for (const std::size_t length : lengths[static_cast<std::size_t>(tag)]) {
        for (std::uint32_t from = 0; from < size(); ++from) {
          Words got(length);
          ASSERT_EQ(outrigger_group_recv(group, got.data(), length * 8, from, tag), kOk)
              << outrigger_group_last_error();
          ASSERT_EQ(got, filled(length, 1000 * from + static_cast<std::int64_t>(length)));
        }
      }
    }
    for (outrigger_group_request* request : requests) {
      ASSERT_EQ(outrigger_group_wait(request, 0), kOk);
      outrigger_group_free(request);
    }
    ASSERT_EQ(outrigger_group_barrier(group), kOk);
  });
}

// Large messages both ways, posted before any is waited for, while the ranks sit in a barrier.
TEST_P(GroupTest, MessagesMoveWithoutAWaitingCaller) {
  run_group(size(), [](outrigger_group* group, std::uint32_t rank) {
    const std::uint32_t right = (rank + 1) % size();
    const std::uint32_t left = (rank + size() - 1) % size();
    const Words mine = filled(100'000, rank);
    Words got(mine.size());
    outrigger_group_request* sends = nullptr;
    outrigger_group_request* receives = nullptr;
    ASSERT_EQ(outrigger_group_isend(group, mine.data(), mine.size() * 8, right, 1, &sends), kOk);
    ASSERT_EQ(outrigger_group_irecv(group, got.data(), got.size() * 8, left, 1, &receives), kOk);
    while (outrigger_group_test(receives) == OUTRIGGER_GROUP_PENDING) std::this_thread::yield();
    ASSERT_EQ(got, filled(got.size(), left));
    ASSERT_EQ(outrigger_group_wait(sends, 0), kOk);
    outrigger_group_free(sends);
    outrigger_group_free(receives);
    if (rank == 0) {
      for (std::uint32_t other = 1; other < size(); ++other) {
        ASSERT_EQ(outrigger_group_irecv(group, got.data(), 8, OUTRIGGER_GROUP_ANY_RANK, 2, &receives), kOk);
        ASSERT_EQ(outrigger_group_wait(receives, 0), kOk);
        ASSERT_EQ(got[0], outrigger_group_source(receives));
        outrigger_group_free(receives);
      }
    } else {
      const std::int64_t word = rank;
      ASSERT_EQ(outrigger_group_send(group, &word, 8, 0, 2), kOk);
    }
    ASSERT_EQ(outrigger_group_barrier(group), kOk);
  });
}

// Those before it are more than are kept.
TEST(GroupMessagesTest, OneBehindLongOnesIsReceived) {
  constexpr std::size_t kBytes = std::size_t{40} << 20;
  const std::vector<std::byte> bytes(kBytes, std::byte{5});
  const auto send = [&](outrigger_group* group) {
    const std::int64_t word = 42;
    std::array<outrigger_group_request*, 2> requests{};
    for (auto& one : requests) ASSERT_EQ(outrigger_group_isend(group, bytes.data(), kBytes, 1, 1, &one), kOk);
    ASSERT_EQ(outrigger_group_send(group, &word, sizeof word, 1, 2), kOk) << outrigger_group_last_error();
    for (auto* one : requests) {
      ASSERT_EQ(outrigger_group_wait(one, 0), kOk);
      outrigger_group_free(one);
    }
  };
  const auto receive = [&](outrigger_group* group) {
    std::int64_t word = 0;
    ASSERT_EQ(outrigger_group_recv(group, &word, sizeof word, 0, 2), kOk) << outrigger_group_last_error();
    ASSERT_EQ(word, 42);
    std::vector<std::byte> got(kBytes);
    for (int message = 0; message < 2; ++message) {
      ASSERT_EQ(outrigger_group_recv(group, got.data(), kBytes, 0, 1), kOk);
      ASSERT_TRUE(got == bytes);
    }
  };
  for (const char* nodes : {"", "a,b"}) {
    pretend_nodes(nodes);
    run_group(2, [&](outrigger_group* group, std::uint32_t rank) { rank == 0 ? send(group) : receive(group); });
  }
  pretend_nodes("");
}

INSTANTIATE_TEST_SUITE_P(OneNode, GroupTest, testing::Values("a", "aa", "aaa", "aaaa"));
INSTANTIATE_TEST_SUITE_P(SeveralNodes, GroupTest,
                         testing::Values("ab", "aab", "aba", "abc", "aabb", "abab", "abcc", "abcd", "aaab"));

}  // namespace
}  // namespace outrigger
