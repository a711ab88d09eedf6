// MPICH before 4.2 over UCX closes its connections in MPI_Finalize and then waits in a barrier of the process manager,
// where it no longer drives UCX. A rank that arrives there first leaves others waiting for its answers for ever. It
// asks by ucp_request_is_completed, in that one place, whether its connections are closed: here the answer "not yet" is
// given for a while longer, and MPICH goes on answering the others itself.
#include "mpi/parting.hpp"

#include "mpi/constants.hpp"
#include "mpi/entry.hpp"

#if !defined(OUTRIGGER_ABI_MPICH)

namespace outrigger::mpi {

void part_together() {}

}  // namespace outrigger::mpi

#else

#include <atomic>
#include <chrono>

namespace outrigger::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// From a rank's last closed connection. All ranks begin to close theirs within a barrier's time, and answers take far
// less than a millisecond: what counts is how long the kernel may keep a rank from its core.
constexpr std::chrono::milliseconds kAnswersFor{300};

constinit std::atomic<bool> parting = false;

// Of the thread that is in MPI_Finalize.
bool others_have_had_answers(bool completed) {
  static Clock::time_point until;
  if (!completed) {
    until = Clock::time_point();
    return false;
  }
  if (until == Clock::time_point()) until = Clock::now() + kAnswersFor;
  return Clock::now() >= until;
}

}  // namespace

void part_together() {
  real().Barrier(constants().comm_world);
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
