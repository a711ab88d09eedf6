// Groups whose creation fails half way: all ranks get an error, and nothing is left.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "local_store.hpp"
#include "rank_processes.hpp"
#include "service_processes.hpp"

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

// A store that kills its process before or after it sets a key.
class DeadlyStore {
 public:
  explicit DeadlyStore(FileStore& store, std::string key = "", bool before = false)
      : store_(store.callbacks()), key_(std::move(key)), before_(before) {}
  [[nodiscard]] struct outrigger_group_store callbacks() {
    return {.context = this,
            .set = [](void* self, const char* key, const void* value,
                      std::size_t bytes) { return static_cast<DeadlyStore*>(self)->set(key, value, bytes); },
            .get =
                [](void* self, const char* key, void* value, std::size_t bytes, std::int64_t timeout_ms) {
                  const Uncounted uncounted;
                  const struct outrigger_group_store& store = static_cast<DeadlyStore*>(self)->store_;
                  return store.get(store.context, key, value, bytes, timeout_ms);
                }};
  }

 private:
  int set(const char* key, const void* value, std::size_t bytes) {
    const Uncounted uncounted;
    if (key_ == key && before_) ::kill(::getpid(), SIGKILL);
    const int result = store_.set(store_.context, key, value, bytes);
    if (key_ == key) ::kill(::getpid(), SIGKILL);
    return result;
  }

  struct outrigger_group_store store_;
  std::string key_;
  bool before_;
};

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
INSTANTIATE_TEST_SUITE_P(OneNode, GroupCreationTest,
                         testing::Values(Circumstances{false, ""}, Circumstances{true, ""}));
INSTANTIATE_TEST_SUITE_P(Nodes, GroupCreationTest, testing::Values(Circumstances{true, "a,b,a"}));
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
          DeadlyStore deadly(store, rank == 0 ? moment.key : "", moment.before);
          const outrigger_group_config config{
              .rank = rank, .size = 3, .store = deadly.callbacks(), .timeout_ms = 3'600'000};
          outrigger_group* group = nullptr;
          const int result = outrigger_group_create(&config, &group);
          const std::string error = outrigger_group_last_error();
          if (!error.starts_with("rank 0 (")) std::fprintf(stderr, "%s\n", error.c_str());
          return result == OUTRIGGER_GROUP_DEAD_RANK && error.starts_with("rank 0 (process ") ? 0 : 1;
        },
        children);
    EXPECT_EQ(results, (std::vector<int>{-1, 0, 0})) << moment.key << moment.before;
    wait_for_no_services_of(children);
  }
}

// Each allocation of rank 1 fails once.
TEST_P(OneNodeCreationTest, NothingIsLeftOfOneWithoutMemory) {
  bool is_whole = false;
  for (long failing = 0; !is_whole; ++failing) {
    std::vector<pid_t> children;
    const std::vector<int> results = run_ranks(
        2,
        [&](FileStore& store, std::uint32_t rank) {
          DeadlyStore uncounted(store);
          const outrigger_group_config config{
              .rank = rank, .size = 2, .store = uncounted.callbacks(), .timeout_ms = 3'600'000};
          outrigger_group* group = nullptr;
          const std::size_t files = entries("/proc/self/fd");
          const std::size_t threads = entries("/proc/self/task");
          allocations_left = rank == 1 ? failing : -1;
          const int result = outrigger_group_create(&config, &group);
          const bool has_failed = allocations_left < 0 && rank == 1;
          allocations_left = -1;
          // The other one may have joined before.
          const int used = group == nullptr ? result : outrigger_group_barrier(group);
          outrigger_group_destroy(group);
          if (entries("/proc/self/fd") != files || entries("/proc/self/task") != threads) return 2;
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
