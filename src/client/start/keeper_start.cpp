#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string_view>
#include <thread>

#include "base/random_bytes.hpp"
#include "base/refusal.hpp"
#include "client/client.hpp"
#include "client/start/abstract_socket.hpp"
#include "client/start/needed_calls.hpp"
#include "protocol/reach.hpp"
#include "protocol/settings.hpp"

namespace outrigger::client {
namespace {

using Clock = std::chrono::steady_clock;

// What the keeper finds open besides /dev/null.
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

// A pipe with the secrets in it. Command lines and environments can be read by others, a pipe cannot.
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

// What of the program's environment is meant for its ranks only: the preload above all.
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

  // In the program's process group, where the system refuses one of its own.
  [[nodiscard]] int stay_in_group() {
    return ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }

  // 0 or an error number.
  [[nodiscard]] int prepare(int listen_fd, int secret_fd) {
    sigset_t all;
    sigset_t none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    // Not a session of its own: where the kernel schedules by sessions (autogroup), the yields of one do nothing for
    // tasks of another, and Linux 6.18 lets runnable sessions wait for half a minute while those of another yield.
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

  [[nodiscard]] int spawn(const std::vector<std::string>& words, pid_t& pid) const {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::vector<char*> environment = keeper_environment();
    return ::posix_spawn(&pid, words.front().c_str(), &actions_, &attributes_, arguments.data(), environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return "was killed by signal " + std::to_string(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

// The program goes to the background by itself; what was spawned ends at once.
Status reap(pid_t pid, const std::string& path, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  while (true) {
    int status = 0;
    const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
    if (reaped == pid) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Done{};
      return Error{"outriggerd at " + path + " " + describe_end(status) + " instead of starting; does `" + path +
                   " --version` work on this node?"};
    }
    // The program collects all children itself; whether the keeper runs is seen when ranks attach.
    if (reaped < 0 && errno == ECHILD) return Done{};
    if (Clock::now() >= deadline) {
      ::kill(pid, SIGKILL);
      static_cast<void>(::waitpid(pid, &status, 0));
      return Error{"outriggerd at " + path + " did not go to the background within " + std::to_string(limit.count()) +
                   " ms; is it the right program? On a slow machine raise OUTRIGGER_INIT_TIMEOUT_MS"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Status start(const KeeperOptions& options, const KeeperDoor& door) {
  if (Status needed = check_needed_calls(); !needed) return needed;
  if (options.daemon_path.empty()) return Error{"no path of outriggerd was given"};
  Result<UniqueFd> secret = pipe_with({door.address.secret, options.dpu_secret});
  if (!secret) return Error{secret.error()};
  const UniqueFd listen_fd = above_targets(door.listener);
  const UniqueFd secret_fd = above_targets(secret.value());
  if (!listen_fd.valid() || !secret_fd.valid()) return failure("cannot start outriggerd", errno);

  SpawnSetup setup;
  if (const int reason = setup.prepare(listen_fd.get(), secret_fd.get()); reason != 0) {
    return failure("cannot start outriggerd", reason);
  }
  pid_t pid = -1;
  int error = setup.spawn(command_line(options), pid);
  if (is_refusal(error) && setup.stay_in_group() == 0) error = setup.spawn(command_line(options), pid);
  if (error != 0) return failure("cannot start outriggerd at " + options.daemon_path, error);
  return reap(pid, options.daemon_path, std::chrono::milliseconds{options.init_timeout_ms});
}

}  // namespace

Result<KeeperDoor> open_keeper_door() try {
  Result<KeeperAddress> address = random_address();
  if (!address) return Error{address.error()};
  Result<UniqueFd> listener = listen_at(address.value().name.data());
  if (!listener) return Error{listener.error()};
  return KeeperDoor{address.value(), std::move(listener).value()};
} catch (const std::exception& exception) {
  return Error{std::string("cannot make the keeper's address: ") + exception.what()};
}

Status start_keeper(const KeeperOptions& options, KeeperDoor door) try {
  return start(options, door);
} catch (const std::exception& exception) {
  return Error{std::string("cannot start outriggerd: ") + exception.what()};
}

Result<KeeperAddress> start_keeper(const KeeperOptions& options) {
  Result<KeeperDoor> door = open_keeper_door();
  if (!door) return Error{door.error()};
  const KeeperAddress address = door.value().address;
  if (Status started = start_keeper(options, std::move(door).value()); !started) return Error{started.error()};
  return address;
}

}  // namespace outrigger::client
