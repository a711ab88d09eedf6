// Errors of groups whose ranks die, are late, abort, or do not agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "local_store.hpp"
#include "rank_processes.hpp"

namespace outrigger {
namespace {

using testing::HasSubstr;

// The ranks share a node, or each is on one of its own, or the last one is alone.
class GroupFailureTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { pretend_nodes(GetParam()); }
  void TearDown() override { pretend_nodes(""); }
};

INSTANTIATE_TEST_SUITE_P(Layouts, GroupFailureTest, testing::Values("", "a,b,c", "a,a,b", "a,b,b"));

TEST_P(GroupFailureTest, ADeadRankIsNamedByAll) {
  const std::vector<int> results = run_processes(3, [](outrigger_group* group, std::uint32_t rank) {
    for (int call = 0; call < 1000; ++call) {
      if (rank == 1 && call == 500) ::kill(::getpid(), SIGKILL);
      std::vector<float> values(20'000, 1);
      const int result = outrigger_group_all_reduce(group, values.data(), values.data(), values.size(),
                                                    OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_SUM);
      if (result == OUTRIGGER_GROUP_OK) continue;
      const bool named = std::string(outrigger_group_last_error()).starts_with("rank 1 (process ");
      return result == OUTRIGGER_GROUP_DEAD_RANK && named ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(results, (std::vector<int>{0, -1, 0}));
}

// As of a loader of data: it has the sockets of its parent.
TEST_P(GroupFailureTest, ALivingChildHidesNoDeath) {
  std::string place = testing::TempDir() + "children-XXXXXX";
  ASSERT_NE(::mkdtemp(place.data()), nullptr);
  const std::vector<int> results = run_processes(3, [&](outrigger_group* group, std::uint32_t rank) {
    if (rank == 1) {
      if (::fork() == 0) {
        while (::access(place.c_str(), F_OK) == 0) ::usleep(1000);
        ::_exit(0);
      }
      ::kill(::getpid(), SIGKILL);
    }
    const int result = outrigger_group_barrier(group);
    return result == OUTRIGGER_GROUP_DEAD_RANK ? 0 : 1;
  });
  EXPECT_EQ(results, (std::vector<int>{0, -1, 0}));
  std::filesystem::remove_all(place);
}

// As of a loader of data that ends as its program would. It has neither the group's thread nor its memory.
TEST_P(GroupFailureTest, AChildIsToldThatItHasNoGroup) {
  const std::vector<int> results = run_processes(3, [](outrigger_group* group, std::uint32_t rank) {
    int word = 0;
    outrigger_group_request* request = nullptr;
    if (outrigger_group_irecv(group, &word, sizeof word, (rank + 1) % 3, 0, &request) != OUTRIGGER_GROUP_OK) return 1;
    const std::string sentence = "this process was forked from rank " + std::to_string(rank) + " (process " +
                                 std::to_string(::getpid()) + "), whose group it cannot use";
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_told =
          outrigger_group_barrier(group) == OUTRIGGER_GROUP_BAD_ARGUMENT && outrigger_group_last_error() == sentence;
      const bool is_refused = outrigger_group_test(request) == OUTRIGGER_GROUP_BAD_ARGUMENT;
      outrigger_group_free(request);
      outrigger_group_abort(group);
      outrigger_group_destroy(group);
      ::_exit(is_told && is_refused ? 0 : 1);
    }
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0) return 2;
    if (outrigger_group_barrier(group) != OUTRIGGER_GROUP_OK) return 3;
    if (outrigger_group_send(group, &rank, sizeof rank, (rank + 2) % 3, 0) != OUTRIGGER_GROUP_OK) return 4;
    const int result = outrigger_group_wait(request, 0);
    outrigger_group_free(request);
    return result == OUTRIGGER_GROUP_OK && std::cmp_equal(word, (rank + 1) % 3) ? 0 : 5;
  });
  EXPECT_EQ(results, (std::vector<int>{0, 0, 0}));
}

TEST_P(GroupFailureTest, AReceiveFromADeadRankEnds) {
  const std::vector<int> results = run_processes(2, [](outrigger_group* group, std::uint32_t rank) {
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    int word = 0;
    const int result = outrigger_group_recv(group, &word, sizeof word, 1, 0);
    return result == OUTRIGGER_GROUP_DEAD_RANK ? 0 : 1;
  });
  EXPECT_EQ(results, (std::vector<int>{0, -1}));
}

TEST_P(GroupFailureTest, AReceiveFromAnyRankEndsWithTheLastOne) {
  const std::vector<int> results = run_processes(3, [](outrigger_group* group, std::uint32_t rank) {
    int word = 42;
    if (rank == 2 && outrigger_group_send(group, &word, sizeof word, 0, 0) != OUTRIGGER_GROUP_OK) return 1;
    if (rank != 0) ::kill(::getpid(), SIGKILL);
    word = 0;
    int result = outrigger_group_recv(group, &word, sizeof word, OUTRIGGER_GROUP_ANY_RANK, 0);
    if (result != OUTRIGGER_GROUP_OK || word != 42) return 2;
    result = outrigger_group_recv(group, &word, sizeof word, OUTRIGGER_GROUP_ANY_RANK, 0);
    return result == OUTRIGGER_GROUP_DEAD_RANK ? 0 : 3;
  });
  EXPECT_EQ(results, (std::vector<int>{0, -1, -1}));
}

// Rank 1 is not there any more, though its process lives.
TEST_P(GroupFailureTest, ARankThatHasLeftIsNamed) {
  using Call = std::function<int(outrigger_group*, std::vector<std::byte>&)>;
  const std::vector<Call> calls{
      [](outrigger_group* group, std::vector<std::byte>&) { return outrigger_group_barrier(group); },
      [](outrigger_group* group, std::vector<std::byte>& bytes) {
        return outrigger_group_recv(group, bytes.data(), bytes.size(), 1, 0);
      },
      [](outrigger_group* group, std::vector<std::byte>& bytes) {
        return outrigger_group_send(group, bytes.data(), bytes.size(), 1, 0);
      },
      [](outrigger_group* group, std::vector<std::byte>& bytes) {
        return outrigger_group_broadcast(group, bytes.data(), bytes.size(), 0);
      }};
  for (const Call& call : calls) {
    std::array<int, 2> rank_0_ends{};
    ASSERT_EQ(::pipe(rank_0_ends.data()), 0);
    const std::vector<int> results = run_processes(2, [&](outrigger_group* group, std::uint32_t rank) {
      char end = 0;
      if (rank == 1) {
        outrigger_group_destroy(group);
        return ::read(rank_0_ends[0], &end, 1) == 1 ? 0 : 1;
      }
      std::vector<std::byte> bytes(1 << 25);  // more than a connection takes
      const int result = call(group, bytes);
      const std::string error = outrigger_group_last_error();
      const bool named =
          error.starts_with("rank 1 (process ") && error.find(" destroyed its group") != std::string::npos;
      return ::write(rank_0_ends[1], &end, 1) == 1 && result == OUTRIGGER_GROUP_DEAD_RANK && named ? 0 : 1;
    });
    EXPECT_EQ(results, (std::vector<int>{0, 0}));
    for (const int end : rank_0_ends) ::close(end);
  }
}

// The last message of a rank that has ended is not lost.
TEST_P(GroupFailureTest, AMessageOutlivesItsSender) {
  const std::vector<int> results = run_processes(2, [](outrigger_group* group, std::uint32_t rank) {
    int word = 42;
    if (rank == 1) return outrigger_group_send(group, &word, sizeof word, 0, 0);
    word = 0;
    int other = 0;
    if (outrigger_group_recv(group, &other, sizeof other, 1, 1) != OUTRIGGER_GROUP_DEAD_RANK) return 1;
    return 0;
  });
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
}

TEST_P(GroupFailureTest, ALateRankIsNamed) {
  std::atomic<bool> ended = false;
  run_group(2, [&](outrigger_group* group, std::uint32_t rank) {
    if (rank == 1) {
      while (!ended) std::this_thread::yield();
      EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_TIMEOUT);
      return;
    }
    outrigger_group_set_timeout(group, 1);
    EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_TIMEOUT);
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 1 (process "));
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr(" s, or waits for another rank itself"));
    ended = true;
  });
}

// A receive that is late leaves the group usable.
TEST_P(GroupFailureTest, ALateMessageHarmsNothing) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    int word = 0;
    if (rank == 0) {
      outrigger_group_set_timeout(group, 1);
      EXPECT_EQ(outrigger_group_recv(group, &word, sizeof word, 1, 5), OUTRIGGER_GROUP_TIMEOUT);
      EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 1"));
      outrigger_group_set_timeout(group, 60'000);
    }
    EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_OK);
    if (rank == 1) {
      word = 7;
      EXPECT_EQ(outrigger_group_send(group, &word, sizeof word, 0, 5), OUTRIGGER_GROUP_OK);
    } else {
      EXPECT_EQ(outrigger_group_recv(group, &word, sizeof word, 1, 5), OUTRIGGER_GROUP_OK);
      EXPECT_EQ(word, 7);
    }
    EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_OK);
  });
}

TEST_P(GroupFailureTest, AbortEndsTheCallsOfOthers) {
  std::atomic<int> created = 0;
  run_group(3, [&](outrigger_group* group, std::uint32_t rank) {
    ++created;
    if (rank == 2) {
      while (created < 3) std::this_thread::yield();
      outrigger_group_abort(group);
    }
    int word = 0;
    const int result =
        rank == 1 ? outrigger_group_recv(group, &word, sizeof word, 2, 0) : outrigger_group_barrier(group);
    EXPECT_EQ(result, OUTRIGGER_GROUP_ABORTED);
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 2 has aborted"));
  });
}

// A rank may complete its call before the other one notices; its next call then fails.
TEST_P(GroupFailureTest, CallsThatDifferAreNamed) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    std::vector<float> values(10, 1);
    int result = rank == 0 ? outrigger_group_barrier(group)
                           : outrigger_group_all_reduce(group, values.data(), values.data(), 10,
                                                        OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_SUM);
    if (result == OUTRIGGER_GROUP_OK) result = outrigger_group_barrier(group);
    EXPECT_EQ(result, OUTRIGGER_GROUP_DIFFERENT);
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 0"));
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 1"));
  });
}

TEST_P(GroupFailureTest, AMessageOfAnotherLengthIsAnError) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    std::int64_t word = 1;
    std::int32_t half = 0;
    if (rank == 1) {
      EXPECT_EQ(outrigger_group_send(group, &word, sizeof word, 0, 0), OUTRIGGER_GROUP_OK);
      EXPECT_EQ(outrigger_group_send(group, &half, sizeof half, 0, 0), OUTRIGGER_GROUP_OK);
      return;
    }
    EXPECT_EQ(outrigger_group_recv(group, &half, sizeof half, 1, 0), OUTRIGGER_GROUP_DIFFERENT);
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("8 bytes from rank 1"));
    EXPECT_EQ(outrigger_group_recv(group, &half, sizeof half, 1, 0), OUTRIGGER_GROUP_OK);
  });
}

// The ring is left in the middle of a message, whose bytes must not be taken for messages: these would be empty ones.
// The message is too long to end before the test does.
TEST_P(GroupFailureTest, NothingIsReceivedAfterAFailure) {
  constexpr std::size_t kBytes = std::size_t{1} << 40;
  void* zeros = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  std::atomic<bool> ended = false;
  run_group(2, [&](outrigger_group* group, std::uint32_t rank) {
    outrigger_group_request* request = nullptr;
    if (rank == 0) {
      EXPECT_EQ(outrigger_group_isend(group, zeros, kBytes, 1, 0, &request), OUTRIGGER_GROUP_OK);
      while (!ended) std::this_thread::yield();
      outrigger_group_free(request);
      EXPECT_EQ(outrigger_group_send(group, zeros, 8, 1, 0), OUTRIGGER_GROUP_ABORTED);
      return;
    }
    int word = 0;
    EXPECT_EQ(outrigger_group_irecv(group, &word, sizeof word, 0, 0, &request), OUTRIGGER_GROUP_OK);
    outrigger_group_abort(group);
    EXPECT_EQ(outrigger_group_wait(request, 0), OUTRIGGER_GROUP_ABORTED);
    outrigger_group_free(request);
    for (int call = 0; call < 1000 && !testing::Test::HasFailure(); ++call) {
      EXPECT_EQ(outrigger_group_recv(group, nullptr, 0, 0, 0), OUTRIGGER_GROUP_ABORTED);
      EXPECT_EQ(outrigger_group_irecv(group, nullptr, 0, 0, 0, &request), OUTRIGGER_GROUP_OK);
      EXPECT_EQ(outrigger_group_test(request), OUTRIGGER_GROUP_ABORTED);
      outrigger_group_free(request);
    }
    ended = true;
  });
  ::munmap(zeros, kBytes);
}

// The rest of a send that is cancelled never comes.
TEST_P(GroupFailureTest, CancellingHalfASendEndsTheGroup) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    const std::vector<std::byte> bytes(1 << 25);  // more than a connection takes
    if (rank == 1) {
      EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_ABORTED);
      return;
    }
    outrigger_group_request* request = nullptr;
    EXPECT_EQ(outrigger_group_isend(group, bytes.data(), bytes.size(), 1, 0, &request), OUTRIGGER_GROUP_OK);
    outrigger_group_free(request);
    EXPECT_EQ(outrigger_group_send(group, bytes.data(), 1, 1, 0), OUTRIGGER_GROUP_ABORTED);
  });
}

TEST_P(GroupFailureTest, ARequestEndsWithALateCollective) {
  std::atomic<bool> ended = false;
  run_group(2, [&](outrigger_group* group, std::uint32_t rank) {
    if (rank == 1) {
      while (!ended) std::this_thread::yield();
      return;
    }
    int word = 0;
    outrigger_group_request* request = nullptr;
    EXPECT_EQ(outrigger_group_irecv(group, &word, sizeof word, 1, 0, &request), OUTRIGGER_GROUP_OK);
    outrigger_group_set_timeout(group, 1);
    EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_TIMEOUT);
    EXPECT_EQ(outrigger_group_wait(request, 60'000), OUTRIGGER_GROUP_ABORTED);
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 1 (process "));
    outrigger_group_free(request);
    ended = true;
  });
}

// A message that must be kept, and is longer than any memory.
TEST_P(GroupFailureTest, ARankWithoutMemoryEndsTheGroup) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    std::vector<std::byte> bytes(1 << 26);  // more than a connection takes at once
    int result = 0;
    if (rank == 0) {
      outrigger_group_request* request = nullptr;
      EXPECT_EQ(outrigger_group_isend(group, bytes.data(), UINT64_MAX, 1, 0, &request), OUTRIGGER_GROUP_OK);
      result = outrigger_group_wait(request, 60'000);
      EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 1 has no memory"));
      outrigger_group_free(request);
    } else {
      result = outrigger_group_recv(group, bytes.data(), 8, 0, 1);
    }
    EXPECT_EQ(result, OUTRIGGER_GROUP_NO_MEMORY);
    EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_NO_MEMORY);
  });
}

// Long reductions are exchanges inside.
TEST_P(GroupFailureTest, LongReductionsThatDifferAreNamed) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    constexpr std::uint64_t kCount = 1 << 18;
    std::vector<float> values(kCount, 1);
    std::vector<float> sums(kCount);
    const std::uint64_t counts[] = {kCount / 2, kCount / 2};
    int result = rank == 0 ? outrigger_group_all_reduce(group, values.data(), sums.data(), kCount,
                                                        OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_SUM)
                           : outrigger_group_reduce_scatter(group, values.data(), sums.data(), counts,
                                                            OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_SUM);
    if (result == OUTRIGGER_GROUP_OK) result = outrigger_group_barrier(group);
    EXPECT_EQ(result, OUTRIGGER_GROUP_DIFFERENT);
    const std::string error = outrigger_group_last_error();
    EXPECT_THAT(error, HasSubstr("rank 0"));
    EXPECT_THAT(error, HasSubstr("rank 1"));
    EXPECT_THAT(error, testing::Not(HasSubstr("lltoall")));
    EXPECT_THAT(error, testing::Not(HasSubstr("llgather")));
  });
}

TEST_P(GroupFailureTest, WrongArgumentsChangeNothing) {
  run_group(1, [](outrigger_group* group, std::uint32_t /*rank*/) {
    float value = 1;
    EXPECT_EQ(outrigger_group_broadcast(group, &value, 4, 3), OUTRIGGER_GROUP_BAD_ARGUMENT);
    EXPECT_STREQ(outrigger_group_last_error(), "there is no rank 3 in a group of 1");
    EXPECT_EQ(outrigger_group_all_reduce(group, &value, &value, 1, OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_BAND),
              OUTRIGGER_GROUP_BAD_ARGUMENT);
    EXPECT_EQ(outrigger_group_all_reduce(group, &value, &value, 1, 99, OUTRIGGER_GROUP_SUM),
              OUTRIGGER_GROUP_BAD_ARGUMENT);
    EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_OK);
  });
}

// Lengths of a pair's block, of which only its two ends know.
TEST_P(GroupFailureTest, BlocksOfDifferentLengthsAreNamed) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    EXPECT_EQ(all_to_all_with_different_lengths(group, rank), OUTRIGGER_GROUP_DIFFERENT);
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 0"));
    EXPECT_THAT(outrigger_group_last_error(), HasSubstr("rank 1"));
  });
}

TEST_P(GroupFailureTest, RanksMustAgreeOnTheSize) {
  ThreadStore store;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const outrigger_group_config config{
          .rank = rank, .size = 2 + rank, .store = store.callbacks(), .timeout_ms = 1'000};
      outrigger_group* group = nullptr;
      EXPECT_NE(outrigger_group_create(&config, &group), OUTRIGGER_GROUP_OK);
      EXPECT_EQ(group, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace outrigger
