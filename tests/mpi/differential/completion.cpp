#include "completion.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace differential {
namespace {

constexpr int styles = 10;

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "differential: %s\n", what);
  std::abort();
}

// A contiguous piece of the request array, and its state.
class Batch {
 public:
  Batch(std::span<MPI_Request> requests, const std::vector<bool>& active, std::size_t first, const Done& done)
      : requests_(requests), first_(first), done_(done) {
    for (std::size_t i = 0; i < requests.size(); ++i) waiting_.push_back(active[first + i]);
  }

  void run(int style, bool statuses) {
    switch (style) {
      case 0: return wait(statuses);
      case 1: return test(statuses);
      case 2: return wait_all(statuses);
      case 3: return test_all(statuses);
      case 4: return wait_any(statuses);
      case 5: return test_any(statuses);
      case 6: return wait_some(statuses);
      case 7: return test_some(statuses);
      case 8: return get_status(statuses);
      default: return wait_backwards(statuses);
    }
  }

  // One call of one of the testing forms; it need not complete anything.
  void poke(int style, bool statuses) {
    switch (style) {
      case 0: return void(test_once(statuses));
      case 1: return void(test_any_once(statuses));
      case 2: return void(test_all_once(statuses));
      default: return void(some_once(MPI_Testsome, statuses));
    }
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(requests_.size()); }
  [[nodiscard]] bool any_waiting() const { return std::find(waiting_.begin(), waiting_.end(), true) != waiting_.end(); }

  void finished(std::size_t index, const MPI_Status* status) {
    if (!waiting_[index]) broken("a request was reported complete that was not active");
    waiting_[index] = false;
    done_(first_ + index, status);
  }
  void finished_all(bool statuses) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (waiting_[i]) finished(i, statuses ? &status_[i] : nullptr);
    }
  }
  // The array and single arguments if statuses may be ignored. They have distinct types in some MPIs, so two helpers.
  [[nodiscard]] MPI_Status* many(bool statuses) { return statuses ? status_.data() : MPI_STATUSES_IGNORE; }
  [[nodiscard]] MPI_Status* one(bool statuses) { return statuses ? status_.data() : MPI_STATUS_IGNORE; }

  void wait_one(std::size_t i, bool statuses) {
    MPI_Wait(&requests_[i], one(statuses));
    if (waiting_[i]) finished(i, statuses ? status_.data() : nullptr);
  }
  void wait(bool statuses) {
    for (std::size_t i = 0; i < requests_.size(); ++i) wait_one(i, statuses);
  }
  void wait_backwards(bool statuses) {
    for (std::size_t i = requests_.size(); i > 0; --i) wait_one(i - 1, statuses);
  }
  bool test_once(bool statuses) {
    bool all = true;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      int flag = 0;
      MPI_Test(&requests_[i], &flag, one(statuses));
      if (flag == 0) {
        all = false;
      } else if (waiting_[i]) {
        finished(i, statuses ? status_.data() : nullptr);
      }
    }
    return all;
  }
  void test(bool statuses) {
    while (!test_once(statuses)) sched_yield();
  }
  void wait_all(bool statuses) {
    MPI_Waitall(count(), requests_.data(), many(statuses));
    finished_all(statuses);
  }
  bool test_all_once(bool statuses) {
    int flag = 0;
    MPI_Testall(count(), requests_.data(), &flag, many(statuses));
    if (flag != 0) finished_all(statuses);
    return flag != 0;
  }
  void test_all(bool statuses) {
    while (!test_all_once(statuses)) sched_yield();
  }
  void wait_any(bool statuses) {
    for (;;) {
      int index = -5;
      MPI_Waitany(count(), requests_.data(), &index, one(statuses));
      if (index == MPI_UNDEFINED) break;
      finished(static_cast<std::size_t>(index), statuses ? status_.data() : nullptr);
    }
    if (any_waiting()) broken("MPI_Waitany said that nothing is active");
  }
  bool test_any_once(bool statuses) {
    int index = -5;
    int flag = 0;
    MPI_Testany(count(), requests_.data(), &index, &flag, one(statuses));
    if (flag == 0) return false;
    if (index == MPI_UNDEFINED) {
      if (any_waiting()) broken("MPI_Testany said that nothing is active");
      return true;
    }
    finished(static_cast<std::size_t>(index), statuses ? status_.data() : nullptr);
    return false;
  }
  void test_any(bool statuses) {
    while (!test_any_once(statuses)) sched_yield();
  }
  using Some = int (*)(int, MPI_Request*, int*, int*, MPI_Status*);
  bool some_once(Some some, bool statuses) {
    std::vector<int> indices(requests_.size() + 1, -5);
    int completed = -5;
    some(count(), requests_.data(), &completed, indices.data(), many(statuses));
    if (completed == MPI_UNDEFINED) {
      if (any_waiting()) broken("MPI_Waitsome or MPI_Testsome said that nothing is active");
      return true;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(completed); ++i) {
      finished(static_cast<std::size_t>(indices[i]), statuses ? &status_[i] : nullptr);
    }
    return false;
  }
  void wait_some(bool statuses) {
    while (!some_once(MPI_Waitsome, statuses)) {
    }
  }
  void test_some(bool statuses) {
    while (!some_once(MPI_Testsome, statuses)) sched_yield();
  }
  // The request stays until it is waited for; two calls must give the same answer.
  void get_status(bool statuses) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      int flag = 0;
      while (flag == 0) {
        MPI_Request_get_status(requests_[i], &flag, one(statuses));
        if (flag == 0) sched_yield();
      }
      // MPICH 5.0 provides none later: a persistent request is inactive from here on
      const MPI_Status seen = status_[0];
      MPI_Request_get_status(requests_[i], &flag, MPI_STATUS_IGNORE);
      if (flag == 0) broken("MPI_Request_get_status said complete, then not complete");
      MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
      if (waiting_[i]) finished(i, statuses ? &seen : nullptr);
    }
  }

  std::span<MPI_Request> requests_;
  std::size_t first_;
  const Done& done_;
  std::vector<bool> waiting_;
  std::array<MPI_Status, 64> status_{};
};

}  // namespace

void complete(std::span<MPI_Request> requests, const std::vector<bool>& active, Random& random, const Done& done) {
  std::size_t first = 0;
  while (first < requests.size()) {
    const int left = static_cast<int>(requests.size() - first);
    const auto length = static_cast<std::size_t>(random.chance(50) ? left : random.between(1, left));
    Batch batch(requests.subspan(first, length), active, first, done);
    batch.run(random.below(styles), random.chance(60));
    first += length;
  }
}

void poke(std::span<MPI_Request> requests, std::vector<bool>& active, Random& random, const Done& done) {
  if (requests.empty()) return;
  const Done mark_and_report = [&](std::size_t index, const MPI_Status* status) {
    active[index] = false;
    done(index, status);
  };
  Batch batch(requests, active, 0, mark_and_report);
  batch.poke(random.below(4), random.chance(60));
}

}  // namespace differential
