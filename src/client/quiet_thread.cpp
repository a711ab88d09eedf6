#include "client/quiet_thread.hpp"

#include <signal.h>

#include <initializer_list>

namespace outrigger::client {
namespace {

sigset_t signals_of_others() {
  sigset_t set;
  ::sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) ::sigdelset(&set, fault);
  return set;
}

bool start_thread(pthread_t& thread, std::size_t stack_bytes, void* (*main)(void*), void* argument) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  const bool fits = stack_bytes == 0 || ::pthread_attr_setstacksize(&attributes, stack_bytes) == 0;
  const bool started = fits && ::pthread_create(&thread, &attributes, main, argument) == 0;
  ::pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

// Where much thread-local memory leaves no room on a small stack, the usual one has.
bool start_quiet_thread(pthread_t& thread, std::size_t stack_bytes, void* (*main)(void*), void* argument) {
  sigset_t before;
  const sigset_t blocked = signals_of_others();
  if (::pthread_sigmask(SIG_SETMASK, &blocked, &before) != 0) return false;
  const bool started = start_thread(thread, stack_bytes, main, argument) ||
                       (stack_bytes != 0 && start_thread(thread, 0, main, argument));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace outrigger::client
