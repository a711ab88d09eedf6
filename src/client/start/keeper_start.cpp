#include "client/start/keeper_start.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <thread>

#include "base/no_cancellation.hpp"
#include "base/random_bytes.hpp"
#include "base/refusal.hpp"
#include "client/start/abstract_socket.hpp"
#include "client/start/needed_calls.hpp"
#include "client/start/unseen_child.hpp"
#include "protocol/options/reach.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::client {
namespace {

using Clock = std::chrono::steady_clock;

// Descriptors of the keeper besides /dev/null.
constexpr int kListenFd = 3;
constexpr int kSecretFd = 4;
constexpr int kFirstClosedFd = 5;
// Sources are moved above the targets, so that placing one never overwrites the other.
constexpr int kAboveTargets = 16;

Error failure(const std::string& what, int reason) {
  return Error{what + ": " + std::strerror(reason)};
}

Result<KeeperAddress> random_address() {
  std::array<unsigned char, 12> random{};
  KeeperAddress address;
  if (!fill_random(std::as_writable_bytes(std::span(random))) ||
      !fill_random(std::as_writable_bytes(std::span(address.secret)))) {
    return failure("cannot get random bytes for the keeper's address", errno);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = "outrigger-" + std::to_string(::geteuid()) + "-";
  for (const unsigned char byte : random) {
    name += kDigits[byte >> 4U];
    name += kDigits[byte & 15U];
  }
  std::copy(name.begin(), name.end(), address.name.begin());
  return address;
}

UniqueFd above_targets(const UniqueFd& fd) {
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kAboveTargets));
}

// A pipe with the secrets in it: others can read command lines and environments, but not a pipe.
Result<UniqueFd> pipe_with(const std::array<Secret, 2>& secrets) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure("cannot create a pipe for the keeper", errno);
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  if (::write(write_end.get(), secrets.data(), sizeof(secrets)) != static_cast<ssize_t>(sizeof(secrets))) {
    return failure("cannot write to the keeper's pipe", errno);
  }
  return read_end;
}

std::vector<std::string> command_line(const KeeperOptions& options) {
  std::vector<std::string> words = {options.daemon_path, "keep",
                                    "--world-size",      std::to_string(options.world_size),
                                    "--local-size",      std::to_string(options.local_size),
                                    "--nodes",           std::to_string(options.nodes),
                                    "--keepers-here",    std::to_string(options.keepers_here),
                                    "--number-here",     std::to_string(options.number_here),
                                    "--services",        std::to_string(options.services),
                                    "--reach",           reach_list(options.reach_allowed),
                                    "--init-timeout-ms", std::to_string(options.init_timeout_ms),
                                    "--leader-pid",      std::to_string(::getpid())};
  if (!options.service_cpus.empty()) {
    words.emplace_back("--service-cpus");
    words.push_back(options.service_cpus);
  }
  if (!options.claims.empty()) {
    words.emplace_back("--claims");
    words.push_back(options.claims);
  }
  if (!options.dpu.empty()) {
    words.emplace_back("--dpu");
    words.push_back(options.dpu);
  }
  return words;
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

std::vector<char*> keeper_environment() {
  std::vector<char*> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!for_ranks_only(*entry)) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

// The keeper's arguments and environment in the system's form.
class CommandLine {
 public:
  explicit CommandLine(const KeeperOptions& options)
      : words_(command_line(options)), environment_(keeper_environment()) {
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
  [[nodiscard]] int prepare(int listen_fd, int secret_fd) {
    sigset_t all;
    sigset_t none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    // The keeper stays in the session: if the kernel schedules by sessions (autogroup), a yield does nothing for tasks
    // of other sessions. Linux 6.18 starves runnable sessions for half a minute while another one yields.
    constexpr short kFlags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    int error = ::posix_spawnattr_setflags(&attributes_, kFlags);
    if (error == 0) error = ::posix_spawnattr_setsigdefault(&attributes_, &all);
    if (error == 0) error = ::posix_spawnattr_setsigmask(&attributes_, &none);
    for (int fd = 0; fd < kListenFd && error == 0; ++fd) {
      error = ::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY, 0);
    }
    if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions_, listen_fd, kListenFd);
    if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions_, secret_fd, kSecretFd);
    if (error == 0) error = ::posix_spawn_file_actions_addclosefrom_np(&actions_, kFirstClosedFd);
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

// Result of the program that puts the keeper to the background.
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

// The program ends at once when its own child continues as the keeper.
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
  if (outcome.start_error != 0) return failure("cannot start outriggerd at " + path, outcome.start_error);
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

Status start(const KeeperOptions& options, const KeeperListener& listener) {
  const NoCancellation whole;
  if (Status needed = check_needed_calls(); !needed) return needed;
  if (options.daemon_path.empty()) return Error{"no path to outriggerd was given"};
  Result<UniqueFd> secret = pipe_with({listener.address.secret, options.dpu_secret});
  if (!secret) return Error{secret.error()};
  const UniqueFd listen_fd = above_targets(listener.socket);
  const UniqueFd secret_fd = above_targets(secret.value());
  if (!listen_fd.valid() || !secret_fd.valid()) return failure("cannot start outriggerd", errno);

  SpawnSetup setup;
  if (const int reason = setup.prepare(listen_fd.get(), secret_fd.get()); reason != 0) {
    return failure("cannot start outriggerd", reason);
  }
  const SharedOutcome outcome;
  if (!outcome.valid()) return failure("cannot start outriggerd", errno);
  const CommandLine command(options);
  Starting starting{setup, command, std::chrono::milliseconds{options.init_timeout_ms}, outcome.get()};
  if (Status ran = run_in_unseen_child(&start_in_child, &starting); !ran) {
    return Error{"cannot start outriggerd: " + ran.error()};
  }
  return judge(outcome.get(), options.daemon_path, starting.limit);
}

}  // namespace

Result<KeeperListener> open_keeper_listener() try {
  Result<KeeperAddress> address = random_address();
  if (!address) return Error{address.error()};
  Result<UniqueFd> socket = listen_at(address.value().name.data());
  if (!socket) return Error{socket.error()};
  return KeeperListener{address.value(), std::move(socket).value()};
} catch (const std::exception& exception) {
  return Error{std::string("cannot make the keeper's address: ") + exception.what()};
}

Status start_keeper(const KeeperOptions& options, KeeperListener listener) try {
  return start(options, listener);
} catch (const std::exception& exception) {
  return Error{std::string("cannot start outriggerd: ") + exception.what()};
}

Result<KeeperAddress> start_keeper(const KeeperOptions& options) {
  Result<KeeperListener> listener = open_keeper_listener();
  if (!listener) return Error{listener.error()};
  const KeeperAddress address = listener.value().address;
  if (Status started = start_keeper(options, std::move(listener).value()); !started) return Error{started.error()};
  return address;
}

}  // namespace outrigger::client
