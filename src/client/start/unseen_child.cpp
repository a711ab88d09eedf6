#include "client/start/unseen_child.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

// clone() by the C library's internal name: ThreadSanitizer treats clone() as a fork, and would write its notes for the
// child into this process's memory.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" int __clone(int (*work)(void*), void* stack, int flags, void* argument, ...);

namespace outrigger::client {
namespace {

class Stack {
 public:
  Stack() : memory_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() {
    if (valid()) ::munmap(memory_, kBytes);
  }
  [[nodiscard]] bool valid() const { return memory_ != MAP_FAILED; }
  [[nodiscard]] void* top() const { return static_cast<std::byte*>(memory_) + kBytes; }

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 10;
  void* memory_;
};

// A handler of the program must not run in the child, on this process's memory.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

class NoOrphansAdopted {
 public:
  NoOrphansAdopted() {
    if (::prctl(PR_GET_CHILD_SUBREAPER, &adopts_, 0, 0, 0) != 0) adopts_ = 0;
    if (adopts_ != 0) ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  }
  NoOrphansAdopted(const NoOrphansAdopted&) = delete;
  NoOrphansAdopted& operator=(const NoOrphansAdopted&) = delete;
  ~NoOrphansAdopted() {
    if (adopts_ != 0) ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  }

 private:
  int adopts_ = 0;
};

struct Work {
  void (*work)(void*);
  void* argument;
};

int enter(void* given) {
  // The child's own from here on: with an ignored signal it could not wait for processes.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, nullptr);
  const Work& work = *static_cast<Work*>(given);
  work.work(work.argument);
  return 0;
}

}  // namespace

Status run_in_unseen_child(void (*work)(void*), void* argument) {
  const Stack stack;
  if (!stack.valid()) return Error{std::string("no memory for a child's stack: ") + std::strerror(errno)};
  Work given{work, argument};
  const NoOrphansAdopted none_adopted;
  const AllSignalsBlocked blocked;
  // No signal at its end, so wait() ignores it. That holds unless it runs another program, which it does not.
  constexpr int kNoSignal = 0;
  const pid_t child = ::__clone(&enter, stack.top(), CLONE_VM | CLONE_VFORK | kNoSignal, &given);
  if (child < 0) return Error{std::string("cannot create a process: ") + std::strerror(errno)};
  int status = 0;
  while (::waitpid(child, &status, __WALL) < 0 && errno == EINTR) {
  }
  return Done{};
}

}  // namespace outrigger::client
