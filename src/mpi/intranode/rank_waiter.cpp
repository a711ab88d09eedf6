#include "mpi/intranode/rank_waiter.hpp"

#include <signal.h>

#include <cerrno>
#include <utility>

#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/message.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::uint32_t kTurnsPerDrive = 4;
constexpr std::uint32_t kCallsPerDrive = 64;
constexpr std::uint32_t kTurnsPerCheck = 4096;
constexpr std::uint32_t kSleepsPerCheck = 64;

intranode::WaitPolicy policy_of(const Job& job) {
  return job.cores == copy::RankCores::shared_with_ranks ? intranode::WaitPolicy::shared_core()
                                                         : intranode::WaitPolicy::own_core();
}

}  // namespace

RankWaiter::RankWaiter(Job& job, std::vector<pid_t> pids) : Waiter(policy_of(job)), job_(job), pids_(std::move(pids)) {}

// Calls that hardly wait make no turns: a rank that makes nothing but such calls still owes the native MPI progress.
void RankWaiter::enters(CollectiveCall call) {
  call_ = call;
  if (++calls_ % kCallsPerDrive == 0) drive_native();
}

void RankWaiter::progress() {
  ++turns_;
  if (turns_ % kTurnsPerDrive == 0) drive_native();
  if (turns_ % kTurnsPerCheck == 0 && job_.client != nullptr) end_if_lost(job_);
}

// A transfer of another rank's may need this rank for each of its fragments.
void RankWaiter::progress_before_sleep() {
  drive_native();
  if (++turns_ % kSleepsPerCheck == 0 && job_.client != nullptr) end_if_lost(job_);
}

// A member that is only late is no error; verbose runs name it.
bool RankWaiter::overdue(std::uint32_t whose, std::chrono::nanoseconds waited) {
  if (::kill(pids_[whose], 0) != 0 && errno == ESRCH) {
    die("rank %u of a communicator (process %d) has ended while others wait for it in %s", whose,
        static_cast<int>(pids_[whose]), call_name().c_str());
  }
  if (job_.config.verbose && !std::exchange(said_, true)) {
    print("rank %u of the world has waited %lld s in %s for rank %u of its communicator (process %d)", job_.world_rank,
          static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(waited).count()), call_name().c_str(),
          whose, static_cast<int>(pids_[whose]));
  }
  return true;
}

}  // namespace outrigger::mpi
