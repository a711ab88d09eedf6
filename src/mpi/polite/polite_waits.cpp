#include "mpi/polite/polite_waits.hpp"

#include <array>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/native/wait_figures.hpp"
#include "mpi/polite/own_setting.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::mpi {
namespace {

void note_kind(report::WaitKind kind) {
  wait_figures.load(std::memory_order_acquire)->kind = static_cast<std::uint32_t>(kind);
}

void note_setting(std::string_view setting) {
  note_kind(report::WaitKind::own_setting);
  report::set_text(wait_figures.load(std::memory_order_acquire)->setting, setting);
}

void note_own_setting() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  if (real().Get_library_version(version.data(), &length) != MPI_SUCCESS) return;
  const std::string setting = own_setting(constants().mpi_name, version.data());
  if (!setting.empty()) note_setting(setting);
}

}  // namespace
}  // namespace outrigger::mpi

#if defined(OUTRIGGER_ABI_OPENMPI)

namespace outrigger::mpi {
namespace {

// Anywhere: in the environment, on the command line or in a file.
bool user_has_set_yields() {
  using Find = int(const char* project, const char* framework, const char* component, const char* variable);
  using Value = int(int variable, const void* value, int* source, const char** file);
  static auto* const find = reinterpret_cast<Find*>(function_if_there("mca_base_var_find"));
  static auto* const value_of = reinterpret_cast<Value*>(function_if_there("mca_base_var_get_value"));
  if (std::getenv(kOpenMpiYields) != nullptr) return true;
  if (find == nullptr || value_of == nullptr) return false;
  constexpr int kByDefault = 0;  // MCA_BASE_VAR_SOURCE_DEFAULT
  int source = kByDefault;
  const void* value = nullptr;
  const int variable = find("ompi", "mpi", nullptr, "yield_when_idle");
  return variable >= 0 && value_of(variable, static_cast<void*>(&value), &source, nullptr) == 0 && source != kByDefault;
}

// Open MPI yields by itself where it is told to. The user's own setting stays.
bool make_polite() {
  static auto* const yields = reinterpret_cast<void (*)(bool)>(function_if_there("opal_progress_set_yield_when_idle"));
  if (yields == nullptr) return false;
  if (user_has_set_yields()) return true;
  yields(true);
  note_setting("mpi_yield_when_idle=1");
  return true;
}

// Its waits only yield, which leaves the core to a computing process for its whole turn.
bool watch_core() {
  return false;
}

}  // namespace

void prepare_polite_waits() {}
void end_polite_waits() {}

#else

#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/clock.hpp"
#include "mpi/native/poll_pauses.hpp"
#include "mpi/polite/contention_watch.hpp"
#include "mpi/polite/fabric_reads.hpp"
#include "mpi/polite/idle_polls.hpp"
#include "mpi/polite/library_slot.hpp"

// MPICH 4 never yields, and MPICH 5 only yields, in each round of its waits. Both poll UCX or libfabric in each round
// of their progress loop, also while they wait for ranks of the same node.
namespace outrigger::mpi {
namespace {

constexpr const char* kPollFunction = "ucp_worker_progress";
constexpr const char* kYieldFunction = "sched_yield";
constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 50'000};

using UcxPoll = unsigned(void* worker);
constinit std::atomic<UcxPoll*> poll_of_ucx = nullptr;
// The MPI polls under its lock: a thread that sleeps there keeps others out.
constinit std::atomic<bool> may_sleep = false;

// A function that the MPI calls, and what it calls in its place.
struct Redirection {
  void** slot = nullptr;  // written in MPI_Init; nullptr: the MPI does not call it
  void* native = nullptr;
  void* polite = nullptr;

  [[nodiscard]] bool find(const char* function, void* replacement) {
    slot = library_slot(reinterpret_cast<const void*>(real().Finalize), function);
    if (slot == nullptr) return false;
    native = *slot;
    polite = replacement;
    return true;
  }
  [[nodiscard]] bool redirect(bool to_polite) const {
    void* const function = to_polite ? polite : native;
    return slot == nullptr || *slot == function || write_slot(slot, function);
  }
};
constinit Redirection polling;
constinit Redirection yielding;
constinit thread_local IdlePolls polls_here;

// True: it has slept.
bool pause_thread(IdlePolls::Pause pause) {
  if (pause == IdlePolls::Pause::sleep && may_sleep.load(std::memory_order_relaxed)) {
    // The C library's function would let a thread be cancelled in the middle of the MPI's progress.
    static_cast<void>(::syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &kNap, nullptr));
    return true;
  }
  ::sched_yield();
  return false;
}

void make_pause(IdlePolls::Pause pause, std::chrono::nanoseconds ended) {
  if (pause == IdlePolls::Pause::none) return;
  const bool slept = pause_thread(pause);
  const auto now = time_on(CLOCK_MONOTONIC);
  polls_here.paused(pause, now);
  wait_figures.load(std::memory_order_acquire)
      ->add_pause(slept, (now - ended).count(), polls_here.take_waited().count());
}

// `found`: if a poll with this result has found something.
template <class Poll, class Found>
auto pause_after(const Poll& poll, const Found& found) {
  if (polls_without_pauses) return poll();
  const auto began = time_on(CLOCK_MONOTONIC);
  const auto result = poll();
  if (found(result)) {
    polls_here.found();
    return result;
  }
  const auto ended = time_on(CLOCK_MONOTONIC);
  make_pause(polls_here.next(began, ended), ended);
  return result;
}

unsigned poll_politely(void* worker) {
  UcxPoll* const poll = poll_of_ucx.load(std::memory_order_acquire);
  return pause_after([&] { return poll(worker); }, [](unsigned events) { return events != 0; });
}

ssize_t read_politely(void* queue, void* entries, std::size_t count) {
  ReadQueue* const read = native_read(queue);
  return pause_after([&] { return read(queue, entries, count); }, [](ssize_t got) { return got != -EAGAIN; });
}

// Called by MPICH 5 after each round.
int yield_politely() {
  if (polls_without_pauses) return ::sched_yield();
  const auto now = time_on(CLOCK_MONOTONIC);
  make_pause(polls_here.next(now, now, IdlePolls::kLongestRound), now);
  return 0;
}

bool find_poll() {
  auto* poll = reinterpret_cast<UcxPoll*>(function_if_there(kPollFunction));
  if (poll == nullptr || !polling.find(kPollFunction, reinterpret_cast<void*>(&poll_politely))) return false;
  poll_of_ucx.store(poll, std::memory_order_release);
  return true;
}

// Other MPIs of this ABI yield where they should not sleep, or have settings for it.
bool is_mpich() {
  return std::string_view(constants().mpi_name) == "MPICH";
}

bool find_yield() {
  return is_mpich() && yielding.find(kYieldFunction, reinterpret_cast<void*>(&yield_politely));
}

bool find_calls() {
  int threads = MPI_THREAD_SINGLE;
  real().Query_thread(&threads);
  may_sleep.store(threads != MPI_THREAD_MULTIPLE, std::memory_order_relaxed);
  const bool polls = find_poll();
  const bool yields = find_yield();
  return has_fabric_queues() || polls || yields;
}

bool redirect_calls(bool polite) {
  const bool polls = polling.redirect(polite);
  const bool yields = yielding.redirect(polite);
  redirect_fabric_reads(polite ? &read_politely : nullptr);
  return polls && yields;
}

bool make_polite() {
  if (!find_calls() || !redirect_calls(true)) return false;
  note_kind(report::WaitKind::polite);
  return true;
}

// Waits that only yield leave the core to a computing process for its whole turn.
bool watch_core() {
  return find_calls() && may_sleep.load(std::memory_order_relaxed) &&
         start_contention_watch([](bool polite) { static_cast<void>(redirect_calls(polite)); });
}

}  // namespace

namespace {

// Then calls of libfabric's own parts would be redirected, too.
bool contains_libfabric(const void* inside) {
  Dl_info mpi{};
  Dl_info fabric{};
  const void* const function = ::dlsym(RTLD_DEFAULT, "fi_fabric");
  return function != nullptr && ::dladdr(inside, &mpi) != 0 && ::dladdr(function, &fabric) != 0 &&
         mpi.dli_fbase == fabric.dli_fbase;
}

}  // namespace

void prepare_polite_waits() {
  if (!enabled_by_environment() || !abi_matches() || !is_mpich()) return;
  const char* const wait = std::getenv(setting::kWait);
  if (wait != nullptr && std::string_view(wait) == "native") return;
  const auto* const inside = reinterpret_cast<const void*>(real().Finalize);
  if (!contains_libfabric(inside)) prepare_fabric_reads(inside);
}

void end_polite_waits() {
  stop_contention_watch();
  static_cast<void>(redirect_calls(false));
}

#endif

namespace {

bool wants_polite_waits(const Job& job) {
  if (job.config.wait != Config::Wait::automatic) return job.config.wait == Config::Wait::polite;
  return job.cores == copy::RankCores::shared_with_ranks;
}

}  // namespace

void begin_polite_waits(const Job& job) {
  note_own_setting();
  if (!wants_polite_waits(job)) {
    if (job.config.wait == Config::Wait::automatic && job.world_size > 1) static_cast<void>(watch_core());
    return;
  }
  const bool begun = make_polite();
  const bool asked = job.config.wait == Config::Wait::polite;
  if (job.world_rank != 0 || !(job.config.verbose || (asked && !begun))) return;
  print(begun ? "waits are polite: waiting ranks give their cores away"
              : "waits are native: this %s has no way to give cores away",
        constants().mpi_name);
}

}  // namespace outrigger::mpi
