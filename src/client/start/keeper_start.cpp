#include "client/start/keeper_start.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/no_cancellation.hpp"
#include "base/random_bytes.hpp"
#include "client/start/abstract_socket.hpp"
#include "client/start/background_program.hpp"
#include "client/start/needed_calls.hpp"
#include "protocol/options/reach.hpp"

namespace outrigger::client {
namespace {

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
  if (!options.dpu.empty() && !options.copy_cpus.empty()) {
    words.emplace_back("--copy-cpus");
    std::string& cpus = words.emplace_back();
    for (const int cpu : options.copy_cpus) cpus.append(cpus.empty() ? "" : ",").append(std::to_string(cpu));
  }
  return words;
}

Status start(const KeeperOptions& options, const KeeperListener& listener) {
  const NoCancellation whole;
  if (Status needed = check_needed_calls(); !needed) return needed;
  if (options.daemon_path.empty()) return Error{"no path to outriggerd was given"};
  Result<UniqueFd> secret = pipe_with({listener.address.secret, options.dpu_secret});
  if (!secret) return Error{secret.error()};
  return start_in_background({.words = command_line(options),
                              .descriptors = {listener.socket.get(), secret.value().get()},
                              .limit = std::chrono::milliseconds{options.init_timeout_ms}});
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
