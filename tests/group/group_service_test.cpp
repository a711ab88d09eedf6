// Groups with a service process: results have the same bits as without it, and stay right when a process dies.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <semaphore>
#include <sstream>
#include <string>
#include <vector>

#include "local_store.hpp"
#include "rank_processes.hpp"
#include "service_processes.hpp"

namespace outrigger {
namespace {

constexpr int kOk = OUTRIGGER_GROUP_OK;
using Bytes = std::vector<std::byte>;

struct Ranks {
  std::uint32_t size;
  const char* nodes;  // "": one
};
class GroupServiceTest : public testing::TestWithParam<Ranks> {
 protected:
  void SetUp() override {
    ::setenv("OUTRIGGER_SERVICE_CPUS", a_cpu().c_str(), 1);
    pretend_nodes(GetParam().nodes);
  }
  void TearDown() override {
    ::unsetenv("OUTRIGGER_SERVICE_CPUS");
    pretend_nodes("");
  }
};
INSTANTIATE_TEST_SUITE_P(OneNode, GroupServiceTest, testing::Values(Ranks{2, ""}, Ranks{3, ""}, Ranks{5, ""}));
INSTANTIATE_TEST_SUITE_P(Nodes, GroupServiceTest,
                         testing::Values(Ranks{2, "a,b"}, Ranks{3, "a,b,b"}, Ranks{5, "a,b,c,a,b"}));

// Arguments that all ranks know.
struct Case {
  std::uint64_t elements;
  int type;
  int operation;
  std::uint32_t root;
  bool in_place;
};

Case random_case(std::mt19937& random, std::uint32_t size) {
  constexpr std::array<int, 6> kTypes{OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_BFLOAT16, OUTRIGGER_GROUP_FLOAT64,
                                      OUTRIGGER_GROUP_INT64,   OUTRIGGER_GROUP_FLOAT16,  OUTRIGGER_GROUP_UINT8};
  constexpr std::array<std::uint64_t, 8> kLengths{0, 1, 7, 1000, 4097, 40'000, 150'000, 300'001};
  constexpr std::array<int, 3> kOperations{OUTRIGGER_GROUP_SUM, OUTRIGGER_GROUP_MAX, OUTRIGGER_GROUP_PRODUCT};
  return {.elements = kLengths[random() % kLengths.size()],
          .type = kTypes[random() % kTypes.size()],
          .operation = kOperations[random() % kOperations.size()],
          .root = static_cast<std::uint32_t>(random() % size),
          .in_place = random() % 2 == 0};
}

std::uint64_t element_bytes(int type) {
  switch (type) {
    case OUTRIGGER_GROUP_UINT8: return 1;
    case OUTRIGGER_GROUP_BFLOAT16:
    case OUTRIGGER_GROUP_FLOAT16: return 2;
    case OUTRIGGER_GROUP_FLOAT32: return 4;
    default: return 8;
  }
}

// Finite numbers of any type: the last byte of each has few exponents.
Bytes random_bytes(std::uint64_t bytes, std::uint64_t element, std::mt19937_64& random) {
  std::uint64_t kept = ~std::uint64_t{0};
  std::uint64_t set = 0;
  for (std::uint64_t last = element - 1; last < sizeof kept; last += element) {
    kept &= ~(std::uint64_t{0x7C} << (8 * last));
    set |= std::uint64_t{0x38} << (8 * last);
  }
  Bytes made((bytes + sizeof kept - 1) / sizeof kept * sizeof kept);
  for (std::uint64_t i = 0; i < made.size(); i += sizeof kept) {
    const std::uint64_t word = (random() & kept) | set;
    std::memcpy(made.data() + i, &word, sizeof word);
  }
  made.resize(bytes);
  return made;
}

using Call = std::function<Bytes(outrigger_group*, const Case&, Bytes mine, std::uint32_t size, std::uint32_t rank)>;

outrigger_group_blocks row(Bytes& bytes, std::uint64_t each) {
  return {.base = bytes.data(), .each = each, .bytes = nullptr, .offsets = nullptr};
}

// Each makes its result from `mine`, which has `elements` elements for each rank.
const std::vector<Call>& calls() {
  static const std::vector<Call> all{
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t, std::uint32_t) {
        Bytes into(mine.size());
        Bytes& result = one.in_place ? mine : into;
        const std::uint64_t count = mine.size() / element_bytes(one.type);
        EXPECT_EQ(outrigger_group_all_reduce(group, mine.data(), result.data(), count, one.type, one.operation), kOk);
        return result;
      },
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t, std::uint32_t rank) {
        Bytes into(mine.size());
        Bytes& result = one.in_place ? mine : into;
        const std::uint64_t count = mine.size() / element_bytes(one.type);
        EXPECT_EQ(outrigger_group_reduce(group, mine.data(), result.data(), count, one.type, one.operation, one.root),
                  kOk);
        return rank == one.root ? result : Bytes();
      },
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t size, std::uint32_t) {
        const std::vector<std::uint64_t> counts(size, one.elements);
        const std::uint64_t own = one.elements * element_bytes(one.type);
        Bytes into(own);
        std::byte* result = one.in_place ? mine.data() : into.data();
        EXPECT_EQ(outrigger_group_reduce_scatter(group, mine.data(), result, counts.data(), one.type, one.operation),
                  kOk);
        return Bytes(result, result + own);
      },
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t, std::uint32_t) {
        EXPECT_EQ(outrigger_group_broadcast(group, mine.data(), mine.size(), one.root), kOk);
        return mine;
      },
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t size, std::uint32_t rank) {
        const std::uint64_t each = one.elements * element_bytes(one.type);
        Bytes into(mine.size());
        const outrigger_group_blocks blocks = row(one.in_place ? mine : into, each);
        EXPECT_EQ(outrigger_group_all_gather(group, mine.data() + rank * each, each, &blocks), kOk);
        (void)size;
        return one.in_place ? mine : into;
      },
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t, std::uint32_t) {
        const std::uint64_t each = one.elements * element_bytes(one.type);
        Bytes into(mine.size());
        const outrigger_group_blocks from = row(mine, each);
        const outrigger_group_blocks to = row(into, each);
        EXPECT_EQ(one.in_place ? outrigger_group_all_to_all(group, &from, &to)
                               : outrigger_group_all_to_allv(group, &from, &to),
                  kOk);
        return into;
      },
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t, std::uint32_t rank) {
        const std::uint64_t each = one.elements * element_bytes(one.type);
        Bytes into(mine.size());
        const outrigger_group_blocks blocks = row(into, each);
        EXPECT_EQ(outrigger_group_gather(group, mine.data(), each, rank == one.root ? &blocks : nullptr, one.root),
                  kOk);
        return into;
      },
      [](outrigger_group* group, const Case& one, Bytes mine, std::uint32_t, std::uint32_t rank) {
        const std::uint64_t each = one.elements * element_bytes(one.type);
        Bytes into(each);
        const outrigger_group_blocks blocks = row(mine, each);
        EXPECT_EQ(outrigger_group_scatter(group, rank == one.root ? &blocks : nullptr, into.data(), each, one.root),
                  kOk);
        EXPECT_EQ(outrigger_group_barrier(group), kOk);
        return into;
      }};
  return all;
}

// Each call twice: as ranks prefer, which may differ, and then by the ranks alone.
void expect_same_bits(outrigger_group* group, std::uint32_t size, std::uint32_t rank, int rounds) {
  std::mt19937 alike(42);
  std::mt19937_64 own(rank);
  for (int round = 0; round < rounds; ++round) {
    const Call& call = calls()[alike() % calls().size()];
    const Case one = random_case(alike, size);
    const std::uint64_t element = element_bytes(one.type);
    const Bytes mine = random_bytes(one.elements * element * size, element, own);
    const bool all_prefer = alike() % 2 == 0;
    (void)outrigger_group_prefer_service(group, all_prefer || own() % 2 == 0 ? 1 : 0);
    const Bytes first = call(group, one, mine, size, rank);
    (void)outrigger_group_prefer_service(group, 0);
    ASSERT_EQ(first, call(group, one, mine, size, rank)) << "round " << round;
  }
}

TEST_P(GroupServiceTest, ResultsHaveTheBitsOfTheRanksOwn) {
  run_group(GetParam().size, [](outrigger_group* group, std::uint32_t rank) {
    ASSERT_EQ(outrigger_group_prefer_service(group, 1), 1);
    expect_same_bits(group, GetParam().size, rank, 60);
  });
  wait_for_no_service_of(::getpid());
}

// Clock ticks on a core.
long used_by(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  constexpr std::size_t kUser = 11;  // words behind the state
  constexpr std::size_t kSystem = 12;
  std::vector<std::string> words;
  for (std::string word; fields >> word;) words.push_back(word);
  return std::stol(words.at(kUser)) + std::stol(words.at(kSystem));
}

TEST_P(GroupServiceTest, TheServiceProcessWorks) {
  run_group(GetParam().size, [](outrigger_group* group, std::uint32_t rank) {
    (void)outrigger_group_prefer_service(group, 1);
    std::vector<float> values(1'000'000);
    for (bool works = false; !works;) {
      ASSERT_EQ(outrigger_group_all_reduce(group, values.data(), values.data(), values.size(), OUTRIGGER_GROUP_FLOAT32,
                                           OUTRIGGER_GROUP_SUM),
                kOk);
      if (rank == 0) works = used_by(services_of(::getpid()).at(0)) > 0;
      ASSERT_EQ(outrigger_group_broadcast(group, &works, sizeof works, 0), kOk);
    }
  });
  wait_for_no_service_of(::getpid());
}

// Ranks as processes, which prefer the service process.
std::vector<int> run_served(std::uint32_t size, const std::function<int(outrigger_group*, std::uint32_t)>& member,
                            std::vector<pid_t>& children) {
  const auto served = [&member](outrigger_group* group, std::uint32_t rank) {
    return outrigger_group_prefer_service(group, 1) != 1 ? 100 : member(group, rank);
  };
  return run_processes(size, served, children);
}

// Sums in place destroy the contributions, so ranks can only go on from what is complete.
int sum_many(outrigger_group* group, std::uint32_t rank, const std::function<void(int)>& before) {
  constexpr std::size_t kLength = 1'500'000;
  constexpr int kCalls = 12;  // signals come in the sixth one, or soon after
  std::vector<float> mine(kLength);
  std::vector<float> sums(kLength);
  std::vector<float> values(kLength);
  for (std::size_t i = 0; i < kLength; ++i) {
    mine[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
    sums[i] = static_cast<float>(2 * (i % 1000) + 1);
  }
  for (int call = 0; call < kCalls; ++call) {
    before(call);
    values = mine;
    const int result = outrigger_group_all_reduce(group, values.data(), values.data(), kLength, OUTRIGGER_GROUP_FLOAT32,
                                                  OUTRIGGER_GROUP_SUM);
    if (result != kOk) return 10 + result;
    if (std::memcmp(values.data(), sums.data(), kLength * sizeof(float)) != 0) return 1;
  }
  return 0;
}

// One process tells another that it may go on.
class Turn {
 public:
  Turn() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Turn() {
    for (const int end : ends_) ::close(end);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  [[nodiscard]] bool give() const { return ::write(ends_[1], "", 1) == 1; }
  [[nodiscard]] bool await() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1;
  }

 private:
  std::array<int, 2> ends_{};
};

// Another process, so that the group's calls go on.
void later(pid_t process, int signal, int after_us) {
  if (::fork() != 0) return;
  ::usleep(static_cast<useconds_t>(after_us));
  ::kill(process, signal);
  ::_exit(0);
}

// With a core for the service processes of its groups.
class WithCore {
 protected:
  explicit WithCore(const std::string& nodes) {
    ::setenv("OUTRIGGER_SERVICE_CPUS", a_cpu().c_str(), 1);
    pretend_nodes(nodes);
  }
  ~WithCore() {
    ::unsetenv("OUTRIGGER_SERVICE_CPUS");
    pretend_nodes("");
  }
};
class OneNodeServiceTest : public testing::Test, WithCore {
 protected:
  OneNodeServiceTest() : WithCore("") {}
};
class NodesServiceTest : public testing::Test, WithCore {
 protected:
  NodesServiceTest() : WithCore("a,b") {}
};
class GroupServiceFailureTest : public testing::TestWithParam<const char*>, WithCore {
 protected:
  GroupServiceFailureTest() : WithCore(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Nodes, GroupServiceFailureTest, testing::Values("", "a,b"));

TEST_F(OneNodeServiceTest, RanksGoOnFromAKilledServiceProcess) {
  for (int round = 0; round < 8; ++round) {
    std::vector<pid_t> children;
    const std::vector<int> results = run_served(
        2,
        [&](outrigger_group* group, std::uint32_t rank) {
          return sum_many(group, rank, [&](int call) {
            if (rank != 0 || call != 5) return;
            for (const pid_t service : services_of(::getpid())) later(service, SIGKILL, 500 * round);
          });
        },
        children);
    EXPECT_EQ(results, (std::vector<int>{0, 0}));
    wait_for_no_service_of(children.front());
  }
}

// It is killed after ten seconds.
TEST_F(OneNodeServiceTest, RanksGoOnFromAStoppedServiceProcess) {
  std::vector<pid_t> children;
  const std::vector<int> results = run_served(
      2,
      [&](outrigger_group* group, std::uint32_t rank) {
        return sum_many(group, rank, [&](int call) {
          if (rank != 0 || call != 5) return;
          for (const pid_t service : services_of(::getpid())) ::kill(service, SIGSTOP);
        });
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
  wait_for_no_service_of(children.front());
}

// Ranks of other nodes may have got the result of what it was doing.
int name_service_of_rank_1(outrigger_group* group, std::uint32_t rank, const std::function<void(pid_t)>& end) {
  const int result = sum_many(group, rank, [&](int call) {
    if (rank != 1 || call != 5) return;
    for (const pid_t service : services_of(::getpid())) end(service);
  });
  const std::string error = outrigger_group_last_error();
  const bool named = error.starts_with("the service process of rank 1's node (process ");
  if (!named) std::fprintf(stderr, "rank %u: %s\n", rank, error.c_str());
  return result == 10 + OUTRIGGER_GROUP_DEAD_RANK && named ? 0 : 1;
}

TEST_F(NodesServiceTest, AKilledServiceProcessIsNamed) {
  for (int round = 0; round < 8; ++round) {
    std::vector<pid_t> children;
    const std::vector<int> results = run_served(
        2,
        [&](outrigger_group* group, std::uint32_t rank) {
          return name_service_of_rank_1(group, rank, [&](pid_t service) { later(service, SIGKILL, 500 * round); });
        },
        children);
    EXPECT_EQ(results, (std::vector<int>{0, 0}));
    wait_for_no_services_of(children);
  }
}

// It is killed after ten seconds.
TEST_F(NodesServiceTest, AStoppedServiceProcessIsNamed) {
  std::vector<pid_t> children;
  const std::vector<int> results = run_served(
      2,
      [&](outrigger_group* group, std::uint32_t rank) {
        return name_service_of_rank_1(group, rank, [](pid_t service) { ::kill(service, SIGSTOP); });
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
  wait_for_no_services_of(children);
}

// Rank 1 calls without its service process, for whose vote rank 0's waits. It is killed after ten seconds.
TEST_F(NodesServiceTest, AStoppedServiceProcessWithoutWorkIsNamed) {
  std::vector<pid_t> children;
  const std::vector<int> results = run_served(
      2,
      [](outrigger_group* group, std::uint32_t rank) {
        if (rank == 1) ::kill(outrigger_group_service_process(group), SIGSTOP);
        (void)outrigger_group_prefer_service(group, rank == 0 ? 1 : 0);
        const int result = outrigger_group_barrier(group);
        const std::string error = outrigger_group_last_error();
        const bool named = error.starts_with("the service process of rank 1's node (process ");
        if (!named) std::fprintf(stderr, "rank %u: %s\n", rank, error.c_str());
        return result == OUTRIGGER_GROUP_DEAD_RANK && named ? 0 : 1;
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
  wait_for_no_services_of(children);
}

// Rank 1 of its node does not call, and the service process there has nothing to do.
TEST_F(NodesServiceTest, ADeadRankOfABusyNodeIsNamed) {
  pretend_nodes("a,b,b");
  const Turn turn;
  std::vector<pid_t> children;
  const std::vector<int> results = run_served(
      3,
      [&](outrigger_group* group, std::uint32_t rank) {
        if (rank == 2) ::kill(::getpid(), SIGKILL);
        if (rank == 1) return turn.await() ? 0 : 1;
        float value = 1;
        const int result =
            outrigger_group_all_reduce(group, &value, &value, 1, OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_SUM);
        const bool named = std::string(outrigger_group_last_error()).starts_with("rank 2 (process ");
        return turn.give() && result == OUTRIGGER_GROUP_DEAD_RANK && named ? 0 : 1;
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, 0, -1}));
  wait_for_no_services_of(children);
}

// The service process of node b has ended before any call. A call that has ended fails, too, if its member hears of a
// failure before it returns, so rank 1 waits before the last one.
TEST_F(NodesServiceTest, RanksGoOnByThemselvesWithoutAnIdleServiceProcess) {
  const Turn turn;
  std::vector<pid_t> children;
  const std::vector<int> results = run_served(
      2,
      [&](outrigger_group* group, std::uint32_t rank) {
        if (rank == 1) ::kill(outrigger_group_service_process(group), SIGKILL);
        (void)outrigger_group_prefer_service(group, 0);
        for (int call = 0; call < 10; ++call) {
          if (const int result = outrigger_group_barrier(group); result != kOk) return 10 + result;
        }
        if (!(rank == 0 ? turn.give() : turn.await())) return 2;
        (void)outrigger_group_prefer_service(group, 1);
        return outrigger_group_barrier(group) == OUTRIGGER_GROUP_DEAD_RANK ? 0 : 1;
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
  wait_for_no_services_of(children);
}

// Rank 0 does the last call by itself. Its node has no service process any more when rank 1 posts the call.
TEST_F(NodesServiceTest, ARankMayCallTheServiceProcessAfterAnotherNodeHasLeft) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    int process = outrigger_group_service_process(group);
    ASSERT_EQ(outrigger_group_broadcast(group, &process, sizeof process, 0), kOk);
    if (rank == 1) {
      while (!words_of(std::to_string(process)).empty()) ::usleep(1000);
      (void)outrigger_group_prefer_service(group, 1);
    }
    int value = rank == 0 ? 7 : 0;
    EXPECT_EQ(outrigger_group_broadcast(group, &value, sizeof value, 0), kOk) << outrigger_group_last_error();
    EXPECT_EQ(value, 7);
  });
  wait_for_no_service_of(::getpid());
}

TEST_F(NodesServiceTest, NoNodeHasOneIfACoreIsMissingOnOne) {
  std::vector<pid_t> children;
  const std::vector<int> results = run_ranks(
      2,
      [](FileStore& store, std::uint32_t rank) {
        if (rank == 1) ::unsetenv("OUTRIGGER_SERVICE_CPUS");
        const outrigger_group_config config{.rank = rank, .size = 2, .store = store.callbacks(), .timeout_ms = 60'000};
        outrigger_group* group = nullptr;
        if (outrigger_group_create(&config, &group) != kOk) return 100;
        return outrigger_group_prefer_service(group, 1) == 0 && services_of(::getpid()).empty() ? 0 : 1;
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
}

// Only the two ranks of a pair know its length.
TEST_F(NodesServiceTest, BlocksOfDifferentLengthsAreNamed) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    (void)outrigger_group_prefer_service(group, 1);
    EXPECT_EQ(all_to_all_with_different_lengths(group, rank), OUTRIGGER_GROUP_DIFFERENT);
    EXPECT_EQ(std::string(outrigger_group_last_error()), "the calls of rank 0 and rank 1 differ");
  });
  wait_for_no_service_of(::getpid());
}

TEST_P(GroupServiceFailureTest, ADeadRankIsNamed) {
  for (int round = 0; round < 4; ++round) {
    std::vector<pid_t> children;
    const std::vector<int> results = run_served(
        2,
        [&](outrigger_group* group, std::uint32_t rank) {
          const int result = sum_many(group, rank, [&](int call) {
            if (rank == 1 && call == 5) later(::getpid(), SIGKILL, 700 * round);
          });
          const bool named = std::string(outrigger_group_last_error()).starts_with("rank 1 (process ");
          return result == 10 + OUTRIGGER_GROUP_DEAD_RANK && named ? 0 : 1;
        },
        children);
    EXPECT_EQ(results, (std::vector<int>{0, -1}));
    wait_for_no_services_of(children);
  }
}

TEST_P(GroupServiceFailureTest, NothingIsLeftOfKilledRanks) {
  std::vector<pid_t> children;
  const std::vector<int> results = run_served(
      2, [](outrigger_group*, std::uint32_t) { return ::kill(::getpid(), SIGKILL); }, children);
  EXPECT_EQ(results, (std::vector<int>{-1, -1}));
  wait_for_no_services_of(children);
}

// It is killed after five seconds.
TEST_P(GroupServiceFailureTest, NothingIsLeftOfAStoppedServiceProcessWithoutRanks) {
  run_group(2, [](outrigger_group* group, std::uint32_t) { ::kill(outrigger_group_service_process(group), SIGSTOP); });
  wait_for_no_service_of(::getpid());
}

TEST_P(GroupServiceFailureTest, DifferentCallsAreNamed) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    (void)outrigger_group_prefer_service(group, 1);
    std::vector<float> values(1000);
    const int result = rank == 0 ? outrigger_group_broadcast(group, values.data(), 4000, 0)
                                 : outrigger_group_all_reduce(group, values.data(), values.data(), 1000,
                                                              OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_SUM);
    // The root of a short broadcast does not wait.
    if (rank == 1) {
      EXPECT_EQ(result, OUTRIGGER_GROUP_DIFFERENT);
    }
  });
}

// Rank 1 does not come before rank 0 has failed.
TEST_P(GroupServiceFailureTest, ALateRankIsNamed) {
  std::binary_semaphore failed(0);
  run_group(2, [&](outrigger_group* group, std::uint32_t rank) {
    (void)outrigger_group_prefer_service(group, 1);
    std::vector<float> values(1000);
    if (rank == 1) failed.acquire();
    outrigger_group_set_timeout(group, 300);
    const int result = outrigger_group_all_reduce(group, values.data(), values.data(), values.size(),
                                                  OUTRIGGER_GROUP_FLOAT32, OUTRIGGER_GROUP_SUM);
    EXPECT_EQ(result, OUTRIGGER_GROUP_TIMEOUT);
    EXPECT_EQ(std::string(outrigger_group_last_error()).find("rank 1 (process "), 0U);
    if (rank == 0) failed.release();
  });
  wait_for_no_service_of(::getpid());
}

TEST_P(GroupServiceFailureTest, AnAbortEndsTheWait) {
  run_group(2, [](outrigger_group* group, std::uint32_t rank) {
    (void)outrigger_group_prefer_service(group, 1);
    if (rank == 1) return outrigger_group_abort(group);
    EXPECT_EQ(outrigger_group_barrier(group), OUTRIGGER_GROUP_ABORTED);
  });
  wait_for_no_service_of(::getpid());
}

TEST_P(GroupServiceFailureTest, ACoreThatDoesNotExistIsNamed) {
  ::setenv("OUTRIGGER_SERVICE_CPUS", "1000", 1);
  ThreadStore store;
  std::vector<std::thread> ranks;
  std::array<int, 2> results{};
  std::array<std::string, 2> errors;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const outrigger_group_config config{.rank = rank, .size = 2, .store = store.callbacks(), .timeout_ms = 60'000};
      outrigger_group* group = nullptr;
      results[rank] = outrigger_group_create(&config, &group);
      errors[rank] = outrigger_group_last_error();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(results, (std::array<int, 2>{OUTRIGGER_GROUP_BAD_ARGUMENT, OUTRIGGER_GROUP_BAD_ARGUMENT}));
  EXPECT_NE(errors[0].find("OUTRIGGER_SERVICE_CPUS=1000"), std::string::npos) << errors[0];
  const bool starts_one = *GetParam() != '\0';
  EXPECT_NE(errors[1].find(starts_one ? "OUTRIGGER_SERVICE_CPUS=1000" : "rank 0 could not join"), std::string::npos)
      << errors[1];
  ::unsetenv("OUTRIGGER_SERVICE_CPUS");
}

}  // namespace
}  // namespace outrigger
