#include "mpi/completion/waiting.hpp"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mpi/completion/driving.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/poll_pauses.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::uint32_t kSpinRounds = 2000;    // tens of microseconds
constexpr std::uint32_t kYieldsForSpins = 64;  // about as long, if the service process may need the core
constexpr std::uint32_t kSpinsPerDrive = 16;   // polling own memory is cheap, driving the native MPI is not
constexpr std::uint32_t kYieldRounds = 16;
constexpr std::uint32_t kYieldsPerDrive = 8;
constexpr std::uint32_t kRoundsPerCheck = 64;
// As ranks wait for each other in blocking calls (intranode/waiter.hpp).
constexpr std::uint32_t kSpinsForRanks = 2000;
constexpr std::uint32_t kSpinsOnSharedCores = 20;
constexpr std::uint32_t kSpinsPerDriveForRanks = 256;
constexpr std::uint32_t kYieldsForRanks = 2000;
constexpr std::uint32_t kYieldsPerDriveForRanks = 16;
// The service process ends a sleep; the limit is for the native MPI. Shorter first sleeps do not pay: a timer costs at
// least ten yields, more on virtual machines, and takes the core from a computing rank.
constexpr std::chrono::microseconds kSleep{1000};

constinit std::atomic<bool> said_unprotected = false;
[[gnu::tls_model("initial-exec")]] constinit thread_local bool needs_turn = false;  // others, since a post

std::uint32_t spins_on(copy::RankCores cores) {
  switch (cores) {
    case copy::RankCores::own: return kSpinRounds;
    case copy::RankCores::shared_with_services: return kYieldsForSpins;
    case copy::RankCores::shared_with_ranks: break;
  }
  return 0;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

// Prints once on each node.
void say_if_unprotected(const Job& job) {
  if (job.local_rank != 0 || !job.client->control().is_unprotected() || said_unprotected.exchange(true)) return;
  print("the keeper of this node is gone (killed?): the job goes on, and ends if one of its service processes dies");
}

void drive_native() {
  const PollsWithoutPauses scope;  // the caller waits by itself
  int flag = 0;
  real().Request_get_status(driving_request(), &flag, MPI_STATUS_IGNORE);
}

void keep_going(Job& job) {
  static_cast<void>(job.client->lending().help_where_alone());
  static constinit std::atomic<std::uint32_t> tests = 0;
  if (tests.fetch_add(1, std::memory_order_relaxed) % 256 == 255) end_if_lost(job);
}

void end_if_lost(Job& job) {
  const std::optional<std::string> text = job.client->fatal();
  if (!text) return say_if_unprotected(job);
  if (job.client->fatal_was_said()) abort_job(*text);
  die("%s", text->c_str() + (text->starts_with(kMessagePrefix) ? kMessagePrefix.size() : 0));
}

void Waiter::drive() {
  if (drives_ == Drives::native) drive_native();
}

Waiter::~Waiter() {
  if (helps_ != copy::Waits::no) job_.client->lending().leave_wait(helps_);
}

// False: others should be waited for as if it were for a service process.
bool Waiter::spins_for_ranks() {
  const std::uint32_t spins = job_.cores == copy::RankCores::shared_with_ranks ? kSpinsOnSharedCores : kSpinsForRanks;
  if (++rounds_for_ranks_ <= spins) {
    relax();
    if (rounds_for_ranks_ % kSpinsPerDriveForRanks == 0) drive();
    return true;
  }
  if (rounds_for_ranks_ > spins + kYieldsForRanks || long_yields_.lately()) return false;
  yield();
  if (rounds_for_ranks_ % kYieldsPerDriveForRanks == 0) {
    drive();
    end_if_lost(job_);
  }
  return true;
}

void Waiter::pause() {
  if (for_ranks_ && spins_for_ranks()) return;
  if (!std::exchange(waits_, true)) helps_ = job_.client->lending().enter_wait();
  if (helps_ != copy::Waits::no && job_.client->lending().help()) {
    drive();  // who copies on and on still owes the native MPI its turns
    rounds_ = 0;
    return;
  }
  const std::uint32_t spins = spins_on(job_.cores);
  ++rounds_;
  if (rounds_ % kRoundsPerCheck == 0) end_if_lost(job_);
  if (rounds_ < spins) {
    if (rounds_ % kSpinsPerDrive == 0) drive();
    job_.cores == copy::RankCores::own ? relax() : static_cast<void>(sched_yield());
    return;
  }
  // The first turns go to ranks that share the core: often one has not posted yet, and driving the native MPI costs as
  // much as a turn.
  if (rounds_ < spins + kYieldRounds) {
    if (rounds_ % kYieldsPerDrive == 0) drive();
    yield();
  } else {
    look();
    pace_.looks_on(long_yields_.lately()) ? yield() : sleep();
  }
  returned_ = Clock::now();
}

// Where the caller drives the native MPI, the look is what it has done since the last pause.
void Waiter::look() {
  const Clock::time_point began = drives_ == Drives::native ? Clock::now() : returned_;
  drive();
  pace_.looked(Clock::now() - began);
}

void Waiter::yield() {
  if (long_yields_.lately()) return relax();
  const Clock::time_point began = Clock::now();
  (void)::sched_yield();
  long_yields_.yielded(Clock::now() - began);
}

void Waiter::sleep() {
  const auto at_most = std::chrono::duration_cast<std::chrono::microseconds>(pace_.sleep(kSleep));
  job_.client->wait_for_completion(at_most, helps_ != copy::Waits::no);
  long_yields_.slept();
  pace_.slept();
}

void note_needed_turn() {
  needs_turn = true;
}

void let_others_post() {
  if (std::exchange(needs_turn, false)) sched_yield();
}

}  // namespace outrigger::mpi
