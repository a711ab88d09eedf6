#include "mpi/windows/guards.hpp"

#include <linux/major.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "base/accessible_memory.hpp"
#include "mpi/windows/dispatched_calls.hpp"

namespace outrigger::mpi {
namespace detail {
constinit std::atomic<std::uint32_t> guards = 0;
}
namespace {

enum class SlotState : std::uint8_t { free, guards, ended };
struct Slot {
  SlotState state = SlotState::free;
  GuardEnd end = GuardEnd::used;
  GuardedCall call;
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;
  std::size_t count = 0;
  std::array<GuardedPages, kMostGuardedRanges> pages;

  [[nodiscard]] bool guards_part_of(std::uintptr_t from, std::uintptr_t to) const {
    return state == SlotState::guards && std::any_of(pages.begin(), pages.begin() + count, [&](const auto& range) {
             return from < range.end && range.begin < to;
           });
  }
};

// All under the lock, with all signals blocked.
constinit std::array<Slot, kMostGuards> guard_slots;
constinit SignalAction own_fault;  // the program's actions, while `armed`
constinit SignalAction own_call;
constinit long armed = 0;  // the thread whose calls are dispatched; 0: none

// Further terminals' numbers follow without a gap.
constexpr unsigned kPtyMajorsEnd = UNIX98_PTY_SLAVE_MAJOR + UNIX98_PTY_MAJOR_COUNT;

constinit std::atomic<bool> locked = false;
constinit std::atomic<Unguarded> forbidden = Unguarded::none;
constinit std::atomic<bool> possible = false;
constinit std::atomic<bool> calls_have_passed = false;
constinit Threads of_mpi;
constinit bool knows_threads = false;
constinit bool mpi_leaves_signals = false;  // its threads do not block them

class Lock {
 public:
  Lock() : mask_(set_signal_mask(~std::uint64_t{0})) {
    while (locked.exchange(true, std::memory_order_acquire)) {
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() {
    locked.store(false, std::memory_order_release);
    set_signal_mask(mask_);
  }
  [[nodiscard]] std::uint64_t mask_before() const { return mask_; }

 private:
  std::uint64_t mask_;
};

// In handlers, too: the C library's may be a dispatched call.
std::int64_t now_ns() {
  timespec now{};
  direct_call(SYS_clock_gettime, CLOCK_MONOTONIC, reinterpret_cast<long>(&now));
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

long this_thread() {
  return direct_call(SYS_gettid);
}

long protect(const GuardedPages& pages, int allowed) {
  return direct_call(SYS_mprotect, static_cast<long>(pages.begin), static_cast<long>(pages.end - pages.begin), allowed);
}

// False: some pages are still guarded.
bool give_back(const Slot& slot, std::size_t count) {
  bool done = true;
  for (std::size_t i = 0; i < count; ++i) done = protect(slot.pages[i], PROT_READ | PROT_WRITE) == 0 && done;
  return done;
}

// Tries again, page by page. True: there is a page that cannot be given back.
bool is_stuck(const Slot& slot, std::size_t count) {
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uintptr_t at = slot.pages[i].begin; at < slot.pages[i].end; at += page) {
      unsigned char is_resident = 0;
      const bool is_there = direct_call(SYS_mincore, static_cast<long>(at), static_cast<long>(page),
                                        reinterpret_cast<long>(&is_resident)) == 0;
      if (is_there && protect({at, at + page}, PROT_READ | PROT_WRITE) != 0) return true;
    }
  }
  return false;
}

// A later access would end the program without a reason.
[[noreturn]] void end_process() {
  static constexpr std::string_view kWhy =
      "outrigger: memory that OUTRIGGER_WINDOWS has guarded cannot be given back (mprotect has failed): the process "
      "probably has as many mappings as vm.max_map_count allows; run it without OUTRIGGER_WINDOWS\n";
  direct_call(SYS_write, STDERR_FILENO, reinterpret_cast<long>(kWhy.data()), static_cast<long>(kWhy.size()));
  while (true) direct_call(SYS_exit_group, 1);
}

void on_fault(int signal, siginfo_t* info, void* context);
void on_call(int signal, siginfo_t* info, void* context);

bool arm() {
  if (armed != 0) return armed == this_thread();
  own_fault = action_of(SIGSEGV);
  own_call = action_of(SIGSYS);
  if (has_handler(own_call) || !dispatch_calls()) return false;  // somebody else's calls are dispatched already
  armed = this_thread();
  set_action(SIGSEGV, action_with(&on_fault, own_fault.flags));
  set_action(SIGSYS, action_with(&on_call, 0));  // in any thread's state
  return true;
}

// If nothing is guarded any more. Another thread leaves it to the armed one, which does it at its next system call:
// that may be about to enter a handler.
void disarm() {
  if (guarding() || armed != this_thread()) return;
  armed = 0;
  set_dispatching(false);
  undispatch_calls();
  set_action(SIGSEGV, own_fault);
  set_action(SIGSYS, own_call);
}

void mark_ended(Slot& slot, GuardEnd why, std::int64_t when_ns) {
  slot.state = SlotState::ended;
  slot.end = why;
  slot.ended_ns = when_ns;
  detail::guards.fetch_sub(1, std::memory_order_relaxed);
}

// The first ranges of the slot. If the process has as many mappings as it may, all guards end: neighbors that are alike
// become one mapping.
void give_back_surely(const Slot& slot, std::size_t count, std::int64_t when_ns) {
  if (give_back(slot, count)) return;
  std::array<const Slot*, kMostGuards> others{};
  std::size_t ended = 0;
  for (Slot& other : guard_slots) {
    if (other.state != SlotState::guards) continue;
    mark_ended(other, GuardEnd::system_call, when_ns);
    give_back(other, other.count);
    others[ended++] = &other;
  }
  const auto others_end = others.begin() + ended;
  if (is_stuck(slot, count) ||
      std::any_of(others.begin(), others_end, [](const Slot* other) { return is_stuck(*other, other->count); })) {
    end_process();
  }
}

void end_slot(Slot& slot, GuardEnd why, std::int64_t when_ns) {
  mark_ended(slot, why, when_ns);
  give_back_surely(slot, slot.count, when_ns);
}

void end_all(GuardEnd why) {
  const std::int64_t when_ns = now_ns();
  for (Slot& slot : guard_slots) {
    if (slot.state == SlotState::guards) end_slot(slot, why, when_ns);
  }
  disarm();
}

// Another process, or the thread itself, has sent it: its own action is back when the handler returns.
void send_again(int signal, siginfo_t* info) {
  const long process = direct_call(SYS_getpid);
  direct_call(SYS_rt_tgsigqueueinfo, process, direct_call(SYS_gettid), signal, reinterpret_cast<long>(info));
}

void on_fault(int signal, siginfo_t* info, void* /*context*/) {
  const Lock lock;
  const std::int64_t when_ns = now_ns();
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (info->si_code == SEGV_ACCERR) {
    const auto touched =
        std::ranges::find_if(guard_slots, [&](const Slot& slot) { return slot.guards_part_of(address, address + 1); });
    if (touched != guard_slots.end()) {
      end_slot(*touched, GuardEnd::used, when_ns);
      return disarm();
    }
  }
  end_all(GuardEnd::system_call);
  if (armed != 0) set_action(signal, own_fault);     // this is another thread
  if (info->si_code <= 0) send_again(signal, info);  // else the instruction faults again
}

// The call copies the given bytes and does nothing else with memory. A device's driver might.
bool only_copies(std::uintptr_t file) {
  struct stat status {};
  if (direct_call(SYS_fstat, static_cast<long>(file), reinterpret_cast<long>(&status)) != 0) return false;
  const unsigned device = major(status.st_rdev);
  const bool is_terminal = S_ISCHR(status.st_mode) && (device == TTY_MAJOR || device == TTYAUX_MAJOR ||
                                                       (UNIX98_PTY_SLAVE_MAJOR <= device && device < kPtyMajorsEnd));
  return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || is_terminal;
}

// Calls that use no memory but that of their arguments.
bool is_harmless(const DispatchedCall& call) {
  if (!call.has_own_number()) return false;
  constexpr std::uintptr_t kMostBytes = 256;  // of the structures that the calls below read or write
  const auto& given = call.arguments();
  const auto is_guarded = [](std::uintptr_t begin, std::uintptr_t bytes) {
    return std::ranges::any_of(guard_slots,
                               [&](const Slot& slot) { return slot.guards_part_of(begin, begin + bytes); });
  };
  if (std::ranges::any_of(given, [&](std::uintptr_t word) { return is_guarded(word, kMostBytes); })) {
    return false;
  }
  switch (call.number()) {
    case SYS_read:
    case SYS_write:
#if defined(SYS_pread64)
    case SYS_pread64:
    case SYS_pwrite64:
#endif
      return !is_guarded(given[1], given[2]) && only_copies(given[0]);
    case SYS_munmap:
    case SYS_madvise: return !is_guarded(given[0], given[1]);
#if defined(SYS_mmap)
    case SYS_mmap: return (given[3] & MAP_FIXED) == 0;
#endif
    case SYS_clock_gettime:
    case SYS_gettimeofday:
    case SYS_getcpu:
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getrusage:
    case SYS_lseek:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_sched_yield: return true;
    default: return false;
  }
}

void on_call(int signal, siginfo_t* info, void* context) {
  constexpr int kDispatched = 2;  // SYS_USER_DISPATCH
  const DispatchedCall call(*info, context);
  const bool is_ours = info->si_code == kDispatched;
  bool runs = false;
  {
    const Lock lock;
    runs = is_ours && guarding() && is_harmless(call);
    if (!runs) end_all(GuardEnd::system_call);
    if (!is_ours && armed != 0) {  // this is another thread
      set_dispatching(false);
      set_action(signal, own_call);
    }
  }
  if (runs) return call.run();
  if (is_ours) return call.repeat();
  send_again(signal, info);
}

// Signals that no guard may meet blocked.
constexpr std::uint64_t kNeeded = mask_of(SIGSEGV) | mask_of(SIGSYS);

// Such a stack may hold one signal's frame, but not two.
bool has_small_signal_stack() {
  constexpr std::size_t kRoom = 64 << 10;
  stack_t stack{};
  return ::sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) == 0 && stack.ss_size < kRoom;
}

bool may_meet_blocked_signals(std::uint64_t thread_mask) {
  const bool small_stack = has_small_signal_stack();
  mpi_leaves_signals = mpi_leaves_signals || of_mpi.leave_unblocked(kNeeded);
  if ((thread_mask & kNeeded) != 0 || !mpi_leaves_signals) return true;
  for (int signal = 1; signal < NSIG; ++signal) {
    if ((mask_of(signal) & kNeeded) != 0) continue;  // replaced as long as the guard lasts
    const SignalAction action = action_of(signal);
    if (!has_handler(action)) continue;
    if ((action.mask & kNeeded) != 0 || (small_stack && (action.flags & SA_ONSTACK) != 0)) return true;
  }
  return false;
}

// Before Linux 5.19 the first write to a page that has been guarded gives the process a copy of it, and a network card
// keeps the old one.
bool keeps_pinned_pages() {
  utsname kernel{};
  if (::uname(&kernel) != 0) return false;
  char* end = nullptr;
  const long version = std::strtol(kernel.release, &end, 10);
  const long release = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return version > 5 || (version == 5 && release >= 19);
}

bool has_further_threads() {
  Threads now;
  if (!knows_threads || !now.read()) return true;
  const auto self = static_cast<std::int32_t>(this_thread());
  return std::ranges::any_of(now.all(), [&](std::int32_t id) { return id != self && !of_mpi.has(id); });
}

Unguarded why_not(std::span<const GuardedPages> pages, std::uint64_t thread_mask) {
  if (pages.empty() || pages.size() > kMostGuardedRanges) return Unguarded::layout;
  if (!may_make_rare_calls()) return Unguarded::system;
  if (may_meet_blocked_signals(thread_mask)) return Unguarded::signals;
  if (has_further_threads()) return Unguarded::threads;
  return is_own_memory(pages) ? Unguarded::none : Unguarded::memory;
}

// Calls are not dispatched meanwhile.
Unguarded start(Slot& slot) {
  if (!arm()) return Unguarded::system;
  for (std::size_t i = 0; i < slot.count; ++i) {
    if (protect(slot.pages[i], slot.pages[i].may_be_read ? PROT_READ : PROT_NONE) == 0) continue;
    give_back_surely(slot, i + 1, now_ns());
    return Unguarded::memory;
  }
  slot.state = SlotState::guards;
  detail::guards.fetch_add(1, std::memory_order_relaxed);
  slot.began_ns = now_ns();
  return Unguarded::none;
}

Unguarded guard_in_slot(const GuardedCall& call, std::span<const GuardedPages> pages, std::uint64_t thread_mask) {
  const Unguarded why = why_not(pages, thread_mask);
  if (why != Unguarded::none) return why;
  const auto free = std::ranges::find(guard_slots, SlotState::free, &Slot::state);
  if (free == guard_slots.end()) return Unguarded::limit;
  free->call = call;
  free->count = pages.size();
  std::ranges::copy(pages, free->pages.begin());
  return start(*free);
}

}  // namespace

Unguarded guard(const GuardedCall& call, std::span<const GuardedPages> pages) {
  if (const Unguarded why = forbidden.load(std::memory_order_relaxed); why != Unguarded::none) return why;
  const Lock lock;
  set_dispatching(false);  // its own system calls must not end the other guards
  disarm();                // another thread may have ended all of them
  const Unguarded why = guard_in_slot(call, pages, lock.mask_before());
  disarm();
  set_dispatching(armed != 0);
  return why;
}

void end_guards(GuardEnd why) {
  if (!guarding()) return;
  const Lock lock;
  end_all(why);
}

void forbid_guards(Unguarded why) {
  forbidden.store(why, std::memory_order_relaxed);
  end_guards(GuardEnd::mpi_call);
}

bool may_guard() {
  return possible.load(std::memory_order_relaxed);
}

bool take_ended_guard(EndedGuard& ended) {
  const Lock lock;
  const auto found = std::ranges::find(guard_slots, SlotState::ended, &Slot::state);
  if (found == guard_slots.end()) return false;
  ended = {found->call, found->ended_ns - found->began_ns, found->end};
  found->state = SlotState::free;
  return true;
}

void note_passed_calls() {
  calls_have_passed.store(true, std::memory_order_relaxed);
}

void note_threads_before_mpi() {
  if (!keeps_pinned_pages()) forbid_guards(Unguarded::system);
  if (calls_have_passed.load(std::memory_order_relaxed)) forbid_guards(Unguarded::calls);
  possible.store(true, std::memory_order_relaxed);
  knows_threads = of_mpi.read();
}

void note_threads_of_mpi() {
  const Threads before = of_mpi;
  knows_threads = knows_threads && of_mpi.read();
  of_mpi.remove(before);
  // A thread that has not run yet blocks all signals. It need not be awaited: each call looks again.
  constexpr int kMostTries = 1000;
  constexpr timespec kPause{0, 1'000'000};
  for (int i = 0; i < kMostTries && !mpi_leaves_signals; ++i) {
    mpi_leaves_signals = of_mpi.leave_unblocked(kNeeded);
    if (!mpi_leaves_signals) ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace outrigger::mpi
