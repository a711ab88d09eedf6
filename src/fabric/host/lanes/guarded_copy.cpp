#include "fabric/host/lanes/guarded_copy.hpp"

#include <setjmp.h>
#include <signal.h>

#include <array>
#include <cstring>

namespace outrigger::fabric {
namespace {

constexpr std::array kFaults{SIGBUS, SIGSEGV};

// Where a fault of this thread's copy goes on. Null: no copy under way.
thread_local sigjmp_buf* volatile way_out = nullptr;
std::array<struct sigaction, kFaults.size()> former_actions;

void on_fault(int signal, siginfo_t* /*info*/, void* /*context*/) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  // Not ours: with the former handler back in its place the instruction faults again.
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    if (kFaults[i] == signal) ::sigaction(signal, &former_actions[i], nullptr);
  }
}

bool install() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  bool all = true;
  for (std::size_t i = 0; i < kFaults.size(); ++i) all &= ::sigaction(kFaults[i], &action, &former_actions[i]) == 0;
  return all;
}

// A handler that is left by a jump leaves its signal blocked.
void unblock() {
  sigset_t faults;
  ::sigemptyset(&faults);
  for (const int fault : kFaults) ::sigaddset(&faults, fault);
  ::pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

}  // namespace

bool copy_guarded(std::byte* to, const std::byte* from, std::size_t bytes) {
  static const bool installed = install();
  if (!installed) return false;
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    way_out = nullptr;
    unblock();
    return false;
  }
  way_out = &here;
  std::memmove(to, from, bytes);
  way_out = nullptr;
  return true;
}

}  // namespace outrigger::fabric
