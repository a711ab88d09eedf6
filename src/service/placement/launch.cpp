#include "service/placement/launch.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace outrigger::service {

Error become(const std::vector<std::string>& command) {
  if (command.empty()) return Error{"no program to run; write it after --"};
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  return Error{"cannot run '" + command.front() + "': " + std::strerror(errno)};
}

Error launch(const LaunchOptions& options) {
  // Not SIGKILL: ranks would have to notice that their launcher is gone, and those of Open MPI 5 do not.
  (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != options.parent) return Error{"the command that started this launcher has already ended"};
  sigset_t unblocked;
  ::sigemptyset(&unblocked);
  for (const int signal : options.unblocked) ::sigaddset(&unblocked, signal);
  (void)::sigprocmask(SIG_UNBLOCK, &unblocked, nullptr);
  for (const int signal : options.ignored) (void)::signal(signal, SIG_IGN);
  return become(options.command);
}

}  // namespace outrigger::service
