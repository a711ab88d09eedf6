#include "client/start/background_program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/refusal.hpp"
#include "base/unique_fd.hpp"
#include "client/start/unseen_child.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::client {
namespace {

using Clock = std::chrono::steady_clock;

// The first descriptor besides /dev/null.
constexpr int kFirstFd = 3;

Error not_started(const std::string& what, int reason) {
  return Error{"cannot start " + what + ": " + std::strerror(reason)};
}

// Sources are moved above the targets, so that placing one never overwrites the other.
UniqueFd above_targets(int fd, std::size_t targets) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFd + static_cast<int>(targets)));
}

// Variables of the program's environment that are only for its ranks, mainly the preload.
bool for_ranks_only(std::string_view entry) {
  constexpr std::array<std::string_view, 3> kLoader = {"LD_PRELOAD=", "LD_AUDIT=", "LD_PROFILE="};
  if (entry.starts_with("OUTRIGGER_"))
    return !entry.starts_with(setting::kLog) && !entry.starts_with(setting::kTransports) &&
           !entry.starts_with(setting::kTrace) && !entry.starts_with(setting::kFaults);
  return std::any_of(kLoader.begin(), kLoader.end(),
                     [entry](std::string_view name) { return entry.starts_with(name); });
}

std::vector<char*> kept_environment() {
  std::vector<char*> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!for_ranks_only(*entry)) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

// Arguments and environment in the system's form.
class CommandLine {
 public:
  explicit CommandLine(std::vector<std::string> words) : words_(std::move(words)), environment_(kept_environment()) {
    for (std::string& word : words_) arguments_.push_back(word.data());
    arguments_.push_back(nullptr);
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine() = default;
  [[nodiscard]] const char* path() const { return words_.front().c_str(); }
  [[nodiscard]] char* const* arguments() const { return arguments_.data(); }
  [[nodiscard]] char* const* environment() const { return environment_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> arguments_;
  std::vector<char*> environment_;
};

class SpawnSetup {
 public:
  SpawnSetup() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  // Stays in the program's process group if the system refuses a new one.
  [[nodiscard]] int stay_in_group() {
    return ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }

  // 0 or an error number.
  [[nodiscard]] int prepare(const std::vector<UniqueFd>& descriptors) {
    sigset_t all;
    sigset_t none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    // It stays in the session: if the kernel schedules by sessions (autogroup), a yield does nothing for tasks
    // of other sessions. Linux 6.18 starves runnable sessions for half a minute while another one yields.
    constexpr short kFlags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    int error = ::posix_spawnattr_setflags(&attributes_, kFlags);
    if (error == 0) error = ::posix_spawnattr_setsigdefault(&attributes_, &all);
    if (error == 0) error = ::posix_spawnattr_setsigmask(&attributes_, &none);
    for (int fd = 0; fd < kFirstFd && error == 0; ++fd) {
      error = ::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY, 0);
    }
    int next = kFirstFd;
    for (auto one = descriptors.begin(); one != descriptors.end() && error == 0; ++one) {
      error = ::posix_spawn_file_actions_adddup2(&actions_, one->get(), next++);
    }
    if (error == 0) error = ::posix_spawn_file_actions_addclosefrom_np(&actions_, next);
    return error;
  }

  // 0 or an error number. Allocates nothing.
  [[nodiscard]] int spawn(const CommandLine& command, pid_t& pid) const {
    return ::posix_spawn(&pid, command.path(), &actions_, &attributes_, command.arguments(), command.environment());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// Result of the program that goes to the background.
struct Outcome {
  bool known = false;
  int start_error = 0;  // it could not be started
  bool in_time = true;
  int status = 0;  // from waitpid()
};

// Written by the child, which may have a copy of all other memory: valgrind, for example, runs vfork() as fork().
class SharedOutcome {
 public:
  SharedOutcome()
      : memory_(::mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (valid()) new (memory_) Outcome;
  }
  SharedOutcome(const SharedOutcome&) = delete;
  SharedOutcome& operator=(const SharedOutcome&) = delete;
  ~SharedOutcome() {
    if (valid()) ::munmap(memory_, sizeof(Outcome));
  }
  [[nodiscard]] bool valid() const { return memory_ != MAP_FAILED; }
  [[nodiscard]] Outcome& get() const { return *static_cast<Outcome*>(memory_); }

 private:
  void* memory_;
};

// The program ends at once when its own child continues in the background.
void wait_for_end(pid_t pid, std::chrono::milliseconds limit, Outcome& outcome) {
  const Clock::time_point deadline = Clock::now() + limit;
  while (::waitpid(pid, &outcome.status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) {
      outcome.in_time = false;
      ::kill(pid, SIGKILL);
      static_cast<void>(::waitpid(pid, &outcome.status, 0));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Everything for the child is made before: it shares this process's memory, and allocates nothing.
struct Starting {
  SpawnSetup& setup;
  const CommandLine& command;
  std::chrono::milliseconds limit;
  Outcome& outcome;
};

void start_in_child(void* given) {
  auto& starting = *static_cast<Starting*>(given);
  Outcome& outcome = starting.outcome;
  pid_t pid = -1;
  outcome.start_error = starting.setup.spawn(starting.command, pid);
  if (is_refusal(outcome.start_error) && starting.setup.stay_in_group() == 0) {
    outcome.start_error = starting.setup.spawn(starting.command, pid);
  }
  if (outcome.start_error == 0) wait_for_end(pid, starting.limit, outcome);
  outcome.known = true;
}

Status judge(const Outcome& outcome, const std::string& path, std::chrono::milliseconds limit) {
  if (!outcome.known) return Error{"the process that was to start outriggerd at " + path + " was killed"};
  if (outcome.start_error != 0) return not_started("outriggerd at " + path, outcome.start_error);
  if (!outcome.in_time) {
    return Error{"outriggerd at " + path + " did not go to the background within " + std::to_string(limit.count()) +
                 " ms; is it the right program? On a slow machine raise OUTRIGGER_INIT_TIMEOUT_MS"};
  }
  if (WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0) return Done{};
  const std::string end = WIFSIGNALED(outcome.status)
                              ? "was killed by signal " + std::to_string(WTERMSIG(outcome.status))
                              : "ended with status " + std::to_string(WEXITSTATUS(outcome.status));
  return Error{"outriggerd at " + path + " " + end + " instead of starting; does `" + path +
               " --version` work on this node?"};
}

}  // namespace

Status start_in_background(const BackgroundProgram& program) {
  std::vector<UniqueFd> descriptors;
  for (const int fd : program.descriptors) {
    descriptors.push_back(above_targets(fd, program.descriptors.size()));
    if (!descriptors.back().valid()) return not_started("outriggerd", errno);
  }
  SpawnSetup setup;
  if (const int reason = setup.prepare(descriptors); reason != 0) return not_started("outriggerd", reason);
  const SharedOutcome outcome;
  if (!outcome.valid()) return not_started("outriggerd", errno);
  const CommandLine command(program.words);
  Starting starting{setup, command, program.limit, outcome.get()};
  if (Status ran = run_in_unseen_child(&start_in_child, &starting); !ran) {
    return Error{"cannot start outriggerd: " + ran.error()};
  }
  return judge(outcome.get(), program.words.front(), program.limit);
}

}  // namespace outrigger::client
