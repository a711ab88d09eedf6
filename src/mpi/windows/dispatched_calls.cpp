#include "mpi/windows/dispatched_calls.hpp"

#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#if defined(__x86_64__)

// The kernel does not dispatch calls from between these labels, so handlers can call it, and return by their own
// restorer.
// clang-format off
__asm__(
    ".pushsection .text.outrigger_direct, \"ax\", @progbits\n"
    ".hidden outrigger_direct_begin, outrigger_direct_call, outrigger_direct_return, outrigger_direct_end\n"
    ".globl outrigger_direct_begin, outrigger_direct_call, outrigger_direct_return, outrigger_direct_end\n"
    "outrigger_direct_begin:\n"
    ".type outrigger_direct_call, @function\n"
    "outrigger_direct_call:\n"
    "  .cfi_startproc\n"
    "  mov %rdi, %rax\n"
    "  mov %rsi, %rdi\n"
    "  mov %rdx, %rsi\n"
    "  mov %rcx, %rdx\n"
    "  mov %r8, %r10\n"
    "  mov %r9, %r8\n"
    "  mov 8(%rsp), %r9\n"
    "  syscall\n"
    "  ret\n"
    "  .cfi_endproc\n"
    ".type outrigger_direct_return, @function\n"
    "outrigger_direct_return:\n"
    "  mov $15, %eax\n"  // rt_sigreturn
    "  syscall\n"
    "  nop\n"
    "outrigger_direct_end:\n"
    ".popsection\n");
// clang-format on
extern "C" {
extern const char outrigger_direct_begin;
extern const char outrigger_direct_end;
long outrigger_direct_call(long number, long a, long b, long c, long d, long e, long f);
void outrigger_direct_return();
}

namespace outrigger::mpi {
namespace {

// Not in every header.
constexpr int kSetDispatch = 59;  // PR_SET_SYSCALL_USER_DISPATCH
constexpr int kDispatchOff = 0;
constexpr int kDispatchOn = 1;
constexpr std::uint64_t kHasRestorer = 0x04000000;  // SA_RESTORER
constexpr long kMaskBytes = 8;
constexpr unsigned kInstructionBytes = 2;  // of `syscall`

constinit volatile char selector = 0;  // read by the kernel

greg_t& register_at(void* context, int which) {
  return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[which];
}

long word(const void* place) {
  return reinterpret_cast<long>(place);
}

}  // namespace

long direct_call(long number, long a, long b, long c, long d, long e, long f) {
  return outrigger_direct_call(number, a, b, c, d, e, f);
}

bool dispatch_calls() {
  const long begin = word(&outrigger_direct_begin);
  const long bytes = word(&outrigger_direct_end) - begin;
  return direct_call(SYS_prctl, kSetDispatch, kDispatchOn, begin, bytes, word(const_cast<const char*>(&selector))) == 0;
}

void undispatch_calls() {
  direct_call(SYS_prctl, kSetDispatch, kDispatchOff);
}

void set_dispatching(bool on) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  selector = on ? 1 : 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

SignalAction action_with(SignalHandler handler, std::uint64_t flags) {
  return {reinterpret_cast<std::uintptr_t>(handler), SA_SIGINFO | (flags & SA_ONSTACK) | kHasRestorer,
          reinterpret_cast<std::uintptr_t>(&outrigger_direct_return), ~std::uint64_t{0}};
}

SignalAction action_of(int signal) {
  SignalAction action;
  direct_call(SYS_rt_sigaction, signal, 0, word(&action), kMaskBytes);
  return action;
}

void set_action(int signal, const SignalAction& action) {
  direct_call(SYS_rt_sigaction, signal, word(&action), 0, kMaskBytes);
}

std::uint64_t set_signal_mask(std::uint64_t mask) {
  std::uint64_t before = 0;
  direct_call(SYS_rt_sigprocmask, SIG_SETMASK, word(&mask), word(&before), kMaskBytes);
  return before;
}

DispatchedCall::DispatchedCall(const siginfo_t& info, void* context)
    : number_(info.si_syscall), has_own_number_(info.si_arch == AUDIT_ARCH_X86_64), context_(context) {
  constexpr std::array kPlaces{REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
  for (std::size_t i = 0; i < kPlaces.size(); ++i) {
    arguments_[i] = static_cast<std::uintptr_t>(register_at(context, kPlaces[i]));
  }
}

void DispatchedCall::run() const {
  const auto at = [&](std::size_t i) { return static_cast<long>(arguments_[i]); };
  std::uint64_t mask = 0;
  __builtin_memcpy(&mask, &static_cast<ucontext_t*>(context_)->uc_sigmask, sizeof(mask));
  const std::uint64_t blocked = set_signal_mask(mask);
  const long result = direct_call(number_, at(0), at(1), at(2), at(3), at(4), at(5));
  set_signal_mask(blocked);
  register_at(context_, REG_RAX) = result;
}

void DispatchedCall::repeat() const {
  register_at(context_, REG_RAX) = number_;
  register_at(context_, REG_RIP) -= kInstructionBytes;
}

}  // namespace outrigger::mpi

#else

namespace outrigger::mpi {

long direct_call(long /*number*/, long /*a*/, long /*b*/, long /*c*/, long /*d*/, long /*e*/, long /*f*/) {
  return -1;
}
bool dispatch_calls() {
  return false;
}
void undispatch_calls() {}
void set_dispatching(bool /*on*/) {}
SignalAction action_with(SignalHandler /*handler*/, std::uint64_t /*flags*/) {
  return {};
}
SignalAction action_of(int /*signal*/) {
  return {};
}
void set_action(int /*signal*/, const SignalAction& /*action*/) {}
std::uint64_t set_signal_mask(std::uint64_t /*mask*/) {
  return 0;
}
DispatchedCall::DispatchedCall(const siginfo_t& /*info*/, void* context) : context_(context) {}
void DispatchedCall::run() const {}
void DispatchedCall::repeat() const {}

}  // namespace outrigger::mpi

#endif
