// MPICH before 4.2 over UCX closes its connections in MPI_Finalize and then waits in a barrier of the process manager,
// in which it does not drive UCX. The first rank there leaves others waiting for its answers for ever. It calls
// ucp_request_is_completed only at that place, to find out if its connections are closed. This library answers "not
// yet" for some time, so that MPICH keeps answering the others.
#include "mpi/start/finalize_barrier.hpp"

#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/origin.hpp"

#if !defined(OUTRIGGER_ABI_MPICH)

namespace outrigger::mpi {

bool spans_machines() {
  return false;
}
void finalize_barrier() {}

}  // namespace outrigger::mpi

#else

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>

#include "base/clock.hpp"

namespace outrigger::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// Time after a rank's last connection has closed. All ranks begin to close within a barrier's time, and answers take
// far less than a millisecond, so the time for which the kernel may keep a rank from its core matters most. So this
// counts CPU time of the rank, if it does not sleep, and grows with slow barriers.
constexpr std::chrono::nanoseconds kAnswersAtLeast = std::chrono::milliseconds(300);
constexpr std::chrono::nanoseconds kAnswersAtMost = std::chrono::seconds(3);
constexpr int kBarriers = 4;
constexpr int kAnswersPerBarrier = 10;

constinit std::atomic<bool> parting = false;
constinit std::chrono::nanoseconds answers_for = kAnswersAtLeast;

// For the thread in MPI_Finalize.
bool others_have_had_answers(bool completed) {
  static std::optional<std::chrono::nanoseconds> until;
  if (!completed) {
    until.reset();
    return false;
  }
  const std::chrono::nanoseconds now = time_on(CLOCK_THREAD_CPUTIME_ID);
  if (!until) until = now + answers_for;
  return now >= *until;
}

}  // namespace

bool spans_machines() {
  MPI_Comm here = MPI_COMM_NULL;
  const MPI_Comm world = constants().comm_world;
  if (real().Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) != MPI_SUCCESS) return false;
  int ranks_here = 0, ranks = 0;
  real().Comm_size(here, &ranks_here);
  real().Comm_size(world, &ranks);
  real().Comm_free(&here);
  return ranks_here < ranks;
}

void finalize_barrier() {
  real().Barrier(constants().comm_world);  // for late ranks
  Clock::duration longest{};
  for (int i = 0; i < kBarriers; ++i) {
    const Clock::time_point began = Clock::now();
    real().Barrier(constants().comm_world);
    longest = std::max(longest, Clock::now() - began);
  }
  answers_for = std::clamp<std::chrono::nanoseconds>(kAnswersPerBarrier * longest, kAnswersAtLeast, kAnswersAtMost);
  parting.store(true, std::memory_order_release);
}

}  // namespace outrigger::mpi

extern "C" OUTRIGGER_EXPORT int ucp_request_is_completed(void* request) {
  using namespace outrigger::mpi;
  static const auto ask =
      reinterpret_cast<int (*)(void*)>(callers_symbol("ucp_request_is_completed", __builtin_return_address(0)));
  const int completed = ask(request);
  if (!parting.load(std::memory_order_acquire) || !called_by_mpi(__builtin_return_address(0))) return completed;
  return others_have_had_answers(completed != 0) ? 1 : 0;
}

#endif
