// Syscall User Dispatch: makes the kernel send SIGSYS instead of running a thread's system calls.
//
// Thread rule: the switch is for all threads that have dispatch_calls().
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>

namespace outrigger::mpi {

// As the kernel has it.
struct SignalAction {
  std::uintptr_t handler = 0;
  std::uint64_t flags = 0;
  std::uintptr_t restorer = 0;
  std::uint64_t mask = 0;
};

// A system call that is never dispatched. Returns -errno if it fails.
long direct_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0);

// For this thread. False: the kernel or the processor cannot do it.
[[nodiscard]] bool dispatch_calls();
void undispatch_calls();
// Threads with dispatch_calls() run their calls as usual unless this is on.
void set_dispatching(bool on);

// Handlers that return without a dispatched call. All signals are blocked in them. On the alternate stack only if
// `flags` have SA_ONSTACK.
using SignalHandler = void (*)(int, siginfo_t*, void*);
[[nodiscard]] SignalAction action_with(SignalHandler handler, std::uint64_t flags);
[[nodiscard]] SignalAction action_of(int signal);
[[nodiscard]] inline bool has_handler(const SignalAction& action) {
  return action.handler != reinterpret_cast<std::uintptr_t>(SIG_DFL) &&
         action.handler != reinterpret_cast<std::uintptr_t>(SIG_IGN);
}
void set_action(int signal, const SignalAction& action);
// Returns the mask before.
std::uint64_t set_signal_mask(std::uint64_t mask);
[[nodiscard]] constexpr std::uint64_t mask_of(int signal) {
  return std::uint64_t{1} << static_cast<unsigned>(signal - 1);
}

// A call that was dispatched, in a SIGSYS handler.
class DispatchedCall {
 public:
  DispatchedCall(const siginfo_t& info, void* context);
  // False: in the way of 32-bit programs, so its number means another call.
  [[nodiscard]] bool has_own_number() const { return has_own_number_; }
  [[nodiscard]] long number() const { return number_; }
  [[nodiscard]] const std::array<std::uintptr_t, 6>& arguments() const { return arguments_; }
  // Does it now, with the thread's own signal mask.
  void run() const;
  // The thread does it again when the handler returns.
  void repeat() const;

 private:
  long number_ = 0;
  bool has_own_number_ = false;
  std::array<std::uintptr_t, 6> arguments_{};
  void* context_;
};

}  // namespace outrigger::mpi
