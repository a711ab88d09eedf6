#include "mpi/native/die.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdlib>

#include "base/unread_output.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// Time for the launcher to read the message: it may drop unread output when it ends the job.
constexpr std::chrono::milliseconds kForTheLauncherToRead{1000};

constexpr int kExitCode = 1;

constinit std::atomic<AbortObserver> abort_observer = nullptr;

}  // namespace

void die(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const MessageLine line(format, arguments);
  va_end(arguments);
  line.write();
  abort_job(line.words());
}

void abort_job(std::string_view why) {
  if (const AbortObserver observer = abort_observer.load(std::memory_order_acquire)) {
    observer(kExitCode, std::string(why));
  }
  wait_until_read(STDERR_FILENO, kForTheLauncherToRead);
  real().Abort(constants().comm_world, kExitCode);
  std::_Exit(kExitCode);
}

void observe_aborts(AbortObserver observer) {
  abort_observer.store(observer, std::memory_order_release);
}

}  // namespace outrigger::mpi
