// Groups whose creation fails half way: all ranks get an error, and nothing is left.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "local_store.hpp"
#include "rank_processes.hpp"
#include "service_processes.hpp"
#include "support/eventually.hpp"
#include "support/new_threads.hpp"

namespace {

// Allocations of this process until one fails; negative: none does.
long allocations_left = -1;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* made = std::malloc(bytes)) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* made) noexcept {
  std::free(made);
}
[[gnu::noinline]] void operator delete(void* made, std::size_t) noexcept {
  std::free(made);
}

namespace outrigger {
namespace {

// The allocations of a store do not count.
class Uncounted {
 public:
  Uncounted() { std::swap(left_, allocations_left); }
  ~Uncounted() { allocations_left = left_; }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  long left_ = -1;
};

void kill_this_process() {
  ::kill(::getpid(), SIGKILL);
}

// A store that does something before or after it sets a key, or before it looks for one.
class HookedStore {
 public:
  using Work = std::function<void()>;
  explicit HookedStore(FileStore& store) : store_(store.callbacks()) {}
  void before_set(std::string key, Work work) { set_ = {std::move(key), std::move(work)}; }
  void after_set(std::string key, Work work) { after_set_ = {std::move(key), std::move(work)}; }
  void before_get(std::string key, Work work) { get_ = {std::move(key), std::move(work)}; }
  [[nodiscard]] struct outrigger_group_store callbacks() {
    return {.context = this,
            .set =
                [](void* self, const char* key, const void* value, std::size_t bytes) {
                  const Uncounted uncounted;
                  const auto& hooked = *static_cast<HookedStore*>(self);
                  hooked.set_.run_at(key);
                  const int result = hooked.store_.set(hooked.store_.context, key, value, bytes);
                  hooked.after_set_.run_at(key);
                  return result;
                },
            .get =
                [](void* self, const char* key, void* value, std::size_t bytes, std::int64_t timeout_ms) {
                  const Uncounted uncounted;
                  const auto& hooked = *static_cast<HookedStore*>(self);
                  hooked.get_.run_at(key);
                  return hooked.store_.get(hooked.store_.context, key, value, bytes, timeout_ms);
                }};
  }

 private:
  struct Hook {
    std::string key{};
    Work work{};
    void run_at(const std::string& one) const {
      if (work && one == key) work();
    }
  };

  struct outrigger_group_store store_;
  Hook set_;
  Hook after_set_;
  Hook get_;
};

// The parent of the process waits for it.
void wait_for_end(pid_t process) {
  while (::kill(process, 0) == 0) ::usleep(1000);
}

// 0 if this last result is an error that names the rank.
int names_dead(std::uint32_t rank, int result) {
  const std::string error = outrigger_group_last_error();
  const bool names = error.starts_with("rank " + std::to_string(rank) + " (process ");
  if (!names) std::fprintf(stderr, "%s\n", error.c_str());
  return result == OUTRIGGER_GROUP_DEAD_RANK && names ? 0 : 1;
}
int creation_names_dead(std::uint32_t rank, const outrigger_group_config& config) {
  outrigger_group* group = nullptr;
  return names_dead(rank, outrigger_group_create(&config, &group));
}
// Likewise if the group was complete before: then by one of its calls.
int creation_or_use_names_dead(std::uint32_t rank, const outrigger_group_config& config) {
  outrigger_group* group = nullptr;
  int result = outrigger_group_create(&config, &group);
  while (result == OUTRIGGER_GROUP_OK) result = outrigger_group_barrier(group);
  const int named = names_dead(rank, result);
  outrigger_group_destroy(group);
  return named;
}

std::size_t entries(const char* directory) {
  std::size_t found = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(directory)) ++found;
  return found;
}

struct Circumstances {
  bool has_service;
  const char* nodes;
};
class GroupCreationTest : public testing::TestWithParam<Circumstances> {
 protected:
  void SetUp() override {
    if (GetParam().has_service) ::setenv("OUTRIGGER_SERVICE_CPUS", a_cpu().c_str(), 1);
    pretend_nodes(GetParam().nodes);
  }
  void TearDown() override {
    ::unsetenv("OUTRIGGER_SERVICE_CPUS");
    pretend_nodes("");
  }
};
class OneNodeCreationTest : public GroupCreationTest {};
class LateCreationTest : public GroupCreationTest {};
INSTANTIATE_TEST_SUITE_P(OneNode, GroupCreationTest,
                         testing::Values(Circumstances{false, ""}, Circumstances{true, ""}));
INSTANTIATE_TEST_SUITE_P(Nodes, GroupCreationTest, testing::Values(Circumstances{true, "a,b,a"}));
INSTANTIATE_TEST_SUITE_P(OneNode, LateCreationTest, testing::Values(Circumstances{false, ""}, Circumstances{true, ""}));
INSTANTIATE_TEST_SUITE_P(Nodes, LateCreationTest, testing::Values(Circumstances{true, "a,b,c"}));
INSTANTIATE_TEST_SUITE_P(OneNode, OneNodeCreationTest,
                         testing::Values(Circumstances{false, ""}, Circumstances{true, ""}));

// The limit of a rank is longer than that of the test.
TEST_P(GroupCreationTest, ARankThatIsKilledMeanwhileIsNamed) {
  struct Moment {
    const char* key;
    bool before;
  };
  std::vector<Moment> moments{{"member/0", false}, {"attached/0", true}, {"attached/0", false}};
  const bool has_services = GetParam().has_service && *GetParam().nodes != '\0';
  if (has_services) moments.insert(moments.end(), {{"place/0", true}, {"served/0", true}, {"served/0", false}});
  for (const Moment& moment : moments) {
    std::vector<pid_t> children;
    const std::vector<int> results = run_ranks(
        3,
        [&](FileStore& store, std::uint32_t rank) {
          HookedStore deadly(store);
          if (rank == 0 && moment.before) deadly.before_set(moment.key, kill_this_process);
          if (rank == 0 && !moment.before) deadly.after_set(moment.key, kill_this_process);
          return creation_names_dead(0,
                                     {.rank = rank, .size = 3, .store = deadly.callbacks(), .timeout_ms = 3'600'000});
        },
        children);
    EXPECT_EQ(results, (std::vector<int>{-1, 0, 0})) << moment.key << moment.before;
    wait_for_no_services_of(children);
  }
}

// From the first word that others have of it until the group is in use. Each seed has its moment.
TEST_P(GroupCreationTest, ARankThatIsKilledAtAnyMomentIsNamed) {
  constexpr unsigned kSeeds = 30;
  constexpr unsigned kLongest_us = 20'000;
  const auto kill_later = [](std::chrono::microseconds moment) {
    std::thread([moment] {
      std::this_thread::sleep_for(moment);
      kill_this_process();
    }).detach();
  };
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const std::chrono::microseconds moment(std::mt19937(seed)() % kLongest_us);
    std::vector<pid_t> children;
    const std::vector<int> results = run_ranks(
        3,
        [&](FileStore& files, std::uint32_t rank) {
          HookedStore store(files);
          if (rank == 0) store.after_set("member/0", [&] { kill_later(moment); });
          return creation_or_use_names_dead(
              0, {.rank = rank, .size = 3, .store = store.callbacks(), .timeout_ms = 3'600'000});
        },
        children);
    ASSERT_EQ(results, (std::vector<int>{-1, 0, 0})) << "seed " << seed << ": " << moment.count() << " us";
    wait_for_no_service_of(children[0]);  // of its node, and of the other
    wait_for_no_service_of(children[1]);
  }
}

// Rank 1 looks after rank 0 has noticed rank 2's end, and has ended as well.
TEST_P(LateCreationTest, ARankThatIsKilledIsNamedAfterOthersHaveEnded) {
  const std::string last_word = *GetParam().nodes != '\0' ? "served/2" : "attached/2";
  std::vector<pid_t> children;
  const std::vector<int> results = run_ranks(
      3,
      [&](FileStore& files, std::uint32_t rank) {
        HookedStore store(files);
        if (rank == 2) store.before_set(last_word, kill_this_process);
        if (rank == 1) store.before_get(last_word, [&] { wait_for_end(children[0]); });
        return creation_names_dead(2, {.rank = rank, .size = 3, .store = store.callbacks(), .timeout_ms = 600'000});
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, 0, -1}));
  wait_for_no_services_of(children);
}

// The child has the descriptors that rank 1 has between connecting and the end of outrigger_group_create().
TEST(GroupCreationForkTest, ARankIsNamedThatHasForkedMeanwhileAndIsKilled) {
  ::setenv("OUTRIGGER_SERVICE_CPUS", a_cpu().c_str(), 1);
  pretend_nodes("a,b");
  std::array<int, 2> child_ends{};
  ASSERT_EQ(::pipe(child_ends.data()), 0);
  std::vector<pid_t> children;
  const std::vector<int> results = run_ranks(
      2,
      [&](FileStore& files, std::uint32_t rank) {
        HookedStore store(files);
        const auto fork_a_child = [&] {
          char end = 0;
          if (::fork() != 0) return;
          ::close(child_ends[1]);
          ::_exit(static_cast<int>(::read(child_ends[0], &end, 1)));
        };
        if (rank == 1) store.before_set("served/1", fork_a_child);
        const outrigger_group_config config{.rank = rank, .size = 2, .store = store.callbacks(), .timeout_ms = 60'000};
        outrigger_group* group = nullptr;
        if (outrigger_group_create(&config, &group) != OUTRIGGER_GROUP_OK) return 1;
        if (rank == 1) kill_this_process();
        return outrigger_group_barrier(group) == OUTRIGGER_GROUP_DEAD_RANK ? 0 : 1;
      },
      children);
  EXPECT_EQ(results, (std::vector<int>{0, -1}));
  for (const int end : child_ends) ::close(end);
  wait_for_no_services_of(children);
  ::unsetenv("OUTRIGGER_SERVICE_CPUS");
  pretend_nodes("");
}

// Each allocation of rank 1 fails once.
TEST_P(OneNodeCreationTest, NothingIsLeftOfOneWithoutMemory) {
  bool is_whole = false;
  for (long failing = 0; !is_whole; ++failing) {
    std::vector<pid_t> children;
    const std::vector<int> results = run_ranks(
        2,
        [&](FileStore& store, std::uint32_t rank) {
          HookedStore uncounted(store);
          const outrigger_group_config config{
              .rank = rank, .size = 2, .store = uncounted.callbacks(), .timeout_ms = 3'600'000};
          outrigger_group* group = nullptr;
          const std::size_t files = entries("/proc/self/fd");
          const NewThreads threads;
          allocations_left = rank == 1 ? failing : -1;
          const int result = outrigger_group_create(&config, &group);
          const bool has_failed = allocations_left < 0 && rank == 1;
          allocations_left = -1;
          // The other one may have joined before.
          const int used = group == nullptr ? result : outrigger_group_barrier(group);
          outrigger_group_destroy(group);
          if (entries("/proc/self/fd") != files) return 2;
          if (!eventually([&] { return !threads.are_there(); })) return 4;
          return rank == 1 && !has_failed ? 3 : (used == OUTRIGGER_GROUP_OK ? 1 : 0);
        },
        children);
    wait_for_no_services_of(children);
    is_whole = results == std::vector<int>{1, 3};
    if (!is_whole) {
      ASSERT_EQ(results, (std::vector<int>{0, 0})) << "allocation " << failing;
    }
  }
}

}  // namespace
}  // namespace outrigger
