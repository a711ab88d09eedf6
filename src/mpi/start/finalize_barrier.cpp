// MPICH before 4.2 over UCX closes its connections in MPI_Finalize and then waits in a barrier of the process manager,
// where it no longer drives UCX. A rank that arrives there first leaves others waiting for its answers for ever. It
// asks by ucp_request_is_completed, in that one place, whether its connections are closed: here the answer "not yet" is
// given for a while longer, and MPICH goes on answering the others itself.
#include "mpi/start/finalize_barrier.hpp"

#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"

#if !defined(OUTRIGGER_ABI_MPICH)

namespace outrigger::mpi {

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

// From a rank's last closed connection. All ranks begin to close theirs within a barrier's time, and answers take far
// less than a millisecond: what counts is how long the kernel may keep a rank from its core. So this is time that the
// rank itself has had its core, where it does not sleep meanwhile, and more of it where barriers took long.
constexpr std::chrono::nanoseconds kAnswersAtLeast = std::chrono::milliseconds(300);
constexpr std::chrono::nanoseconds kAnswersAtMost = std::chrono::seconds(3);
constexpr int kBarriers = 4;
constexpr int kAnswersPerBarrier = 10;

constinit std::atomic<bool> parting = false;
constinit std::chrono::nanoseconds answers_for = kAnswersAtLeast;

// Of the thread that is in MPI_Finalize.
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

void finalize_barrier() {
  real().Barrier(constants().comm_world);  // for those who come late
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
  if (!parting.load(std::memory_order_acquire)) return completed;
  return others_have_had_answers(completed != 0) ? 1 : 0;
}

#endif
