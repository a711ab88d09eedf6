#include "mpi/intranode/rank_waiter.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "base/accessible_memory.hpp"
#include "base/unique_fd.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/rma_windows.hpp"

namespace outrigger::mpi {
namespace {

using intranode::CallWord;
using intranode::Late;
using namespace std::chrono_literals;

// From one look at a late member to the next.
constexpr auto kPatience = 2s;
// A rank may legally let others wait for hours, so there is only one line a communicator.
constexpr auto kSayAfter = 300s;
constexpr auto kSayAfterVerbose = 10s;
// Where yields take long.
constexpr std::chrono::nanoseconds kSleepWithWindows = 20us;

intranode::WaitPolicy policy_of(const Job& job) {
  intranode::WaitPolicy policy = job.cores == copy::RankCores::shared_with_ranks ? intranode::WaitPolicy::shared_core()
                                                                                 : intranode::WaitPolicy::own_core();
  policy.patience = kPatience;
  return policy;
}

// Also true for one that its parent has not waited for yet.
bool has_ended(pid_t pid) {
#if defined(SYS_pidfd_open)
  const UniqueFd process(may_make_rare_calls() ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1);
  if (process.valid()) {
    pollfd ends{.fd = process.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ends, 1, 0) == 1;
  }
#endif
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

std::string way_of(CallWord call) {
  if (!call.is_compared()) return "has failed in this call";
  return (call.is_by_ranks() ? "calls " : "natively calls ") + call.description();
}

}  // namespace

RankWaiter::RankWaiter(Job& job, std::uint32_t me, intranode::ControlArea area, std::vector<pid_t> pids,
                       std::vector<std::uint32_t> ranks)
    : Waiter(policy_of(job)),
      job_(job),
      me_(me),
      area_(std::move(area)),
      pids_(std::move(pids)),
      ranks_(std::move(ranks)) {}

// An accumulate into a window of this rank, for example, waits until this rank lets the MPI progress.
void RankWaiter::serve_windows() {
  intranode::WaitPolicy awake = policy();
  awake.yields = std::numeric_limits<std::uint32_t>::max();
  awake.yields_per_progress = 1;
  awake.sleep = kSleepWithWindows;
  set_policy(awake);
}

void RankWaiter::progress() {
  drive_native();
  if (may_have_rma_windows() && policy().sleep != kSleepWithWindows) serve_windows();
  if (job_.client != nullptr) end_if_lost(job_);
}

bool RankWaiter::overdue(const Late& late) {
  if (!late.writes && !is_in_same_call(late)) return false;
  check_process(late);
  const auto after = job_.config.verbose ? kSayAfterVerbose : kSayAfter;
  // One that is in this call may itself wait: who waits for the late rank says so first.
  const bool is_here = doing(late.whose).ahead_of(doing(me_)) == 0;
  if (late.waited >= (is_here ? 2 * after : after)) say_late(late);
  return true;
}

CallWord RankWaiter::doing(std::uint32_t member) const {
  return CallWord(area_.member(member).doing.load(std::memory_order_acquire));
}

void RankWaiter::differs_from(std::uint32_t member) {
  const CallWord mine = doing(me_);
  const CallWord theirs = doing(member);
  const std::int32_t ahead = theirs.ahead_of(mine);
  reason_.code = theirs.differs_in_bytes_only(mine) ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
  reason_.words = "rank " + std::to_string(ranks_[me_]) + " " + way_of(mine) + ", and rank " +
                  std::to_string(ranks_[member]) + " " + way_of(theirs) +
                  (ahead > 0   ? " in a later call"
                   : ahead < 0 ? " or an earlier one"
                               : "");
}

// A member writes there what it does before it does it, and all count the calls of the communicator alike. So a member
// that is in the same call natively will not come, nor will one in a later call.
bool RankWaiter::is_in_same_call(const Late& late) {
  const CallWord mine = doing(me_);
  const CallWord theirs = doing(late.whose);
  const std::int32_t ahead = theirs.ahead_of(mine);
  const bool may_come = ahead < 0 || (ahead == 0 && theirs.is_same_call(mine));
  if ((theirs.is_compared() && may_come) || late.has_come()) return true;
  differs_from(late.whose);
  return false;
}

// It may have come just before it ended.
void RankWaiter::check_process(const Late& late) const {
  if (!has_ended(pids_[late.whose]) || late.has_come()) return;
  die("rank %u of a communicator (process %d) has ended while others wait for it in %s", ranks_[late.whose],
      static_cast<int>(pids_[late.whose]), doing(me_).description().c_str());
}

void RankWaiter::say_late(const Late& late) const {
  if (area_.member(0).said_late.exchange(1, std::memory_order_relaxed) != 0) return;
  print("rank %u of the world has waited %lld s in %s for rank %u of its communicator (process %d)%s", job_.world_rank,
        static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(late.waited).count()),
        doing(me_).description().c_str(), ranks_[late.whose], static_cast<int>(pids_[late.whose]),
        doing(late.whose).ahead_of(doing(me_)) == 0 ? ", which is in this call, too" : "");
}

}  // namespace outrigger::mpi
